"""What each generation of a set added; times and sources are those of its build.json."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from beam_jobs.moved_sources import known_sources, merged_options
from foundation.storage import Place
from shard_format import Ledger, load_build, load_manifest


class GenerationInfo(NamedTuple):
    """One generation.

    Attributes:
        number: From 0.
        started: When its build began, such as "2026-11-23T00:10:00Z"; empty if that is unknown.
        seconds: How long it took; None if that is unknown.
        sources: What was read; of a compacted set, by all builds that were merged.
        ledger: Ledger of its records.
        records: Kept records by split.
        bytes: Total size of its shards.
        root_hash: Root hash of its own manifest.
        view: Root hash of the set when it was the newest generation.
    """

    number: int
    started: str
    seconds: float | None
    sources: list[str]
    ledger: Ledger
    records: dict[str, int]
    bytes: int
    root_hash: str
    view: str

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return self._asdict() | {"ledger": dataclasses.asdict(self.ledger)}


def generations(directory: Place) -> list[GenerationInfo]:
    """Returns all generations of a set, the first one first.

    Raises:
        ShardSetError: There is no set.
        DamageError: A manifest is not what was written.
    """
    newest = load_manifest(directory)
    infos = []
    views = [one.view for one in newest.generations[:-1]]
    folders = [one.folder for one in newest.generations] or [""]
    for number, (folder, view) in enumerate(zip(folders, [*views, newest.root_hash], strict=True)):
        place = directory / folder if folder else directory
        own = load_manifest(place) if folder else load_manifest(directory, 0)
        build = load_build(place)
        sources = [source for one in merged_options(build) for source in known_sources(one)]
        infos.append(
            GenerationInfo(
                number=number,
                started=str(build.get("started", "")),
                seconds=build.get("seconds"),
                sources=list(dict.fromkeys(sources)),
                ledger=own.ledger,
                records={name: split.records for name, split in own.splits.items()},
                bytes=sum(split.bytes for split in own.splits.values()),
                root_hash=own.root_hash,
                view=view,
            )
        )
    return infos
