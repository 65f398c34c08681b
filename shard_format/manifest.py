"""What a manifest says: the root of a shard set. A folder without one is not a shard set.

It is a function of the input and the options alone: it has no time stamp, host name, absolute path
or version. `root_hash` covers all of it, and it has the SHA-256 of every other file, so two sets
with the same root hash have the same bytes. `manifest_file` reads it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foundation.errors import DamageError, ShardmillError
from shard_format import naming
from shard_format.schema import Schema
from shard_format.shard_list import ShardInfo as ShardInfo
from shard_format.shard_list import ShardList

FORMAT_VERSION = 1
# Of a set with generations: a reader that knows version 1 alone would look for its index elsewhere.
GENERATIONS_VERSION = 2
# Of a set that has the index of a split or its duplicates in parts, with generations or without.
PARTS_VERSION = 3


@dataclasses.dataclass(frozen=True)
class IndexPart:
    """A file of an index, relative to the set, and the number of shards whose rows it has."""

    file: str
    shards: int


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """The shards of one split in reading order, and the statistics of its records.

    Attributes:
        shards: The shards; of a large split they are read from a file where they are asked for.
        statistics: Statistics of the records.
        index: Parts of the index of a large split, in the order of their shards; empty where the
            index is one file.
    """

    shards: Sequence[ShardInfo]
    statistics: Mapping[str, Any]
    index: tuple[IndexPart, ...] = ()

    @property
    def records(self) -> int:
        """Number of records in all shards."""
        if isinstance(self.shards, ShardList):
            return self.shards.records
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        if isinstance(self.shards, ShardList):
            return self.shards.bytes
        return sum(shard.bytes for shard in self.shards)

    def has_shard_list(self) -> bool:
        """Whether the shards can be read; those of a large split are damaged with their file."""
        try:
            for _ in self.shards:
                pass
        except ShardmillError:
            return False
        return True


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What became of every record that was read.

    Attributes:
        read: Records found by the source.
        kept: Records in the shards.
        duplicates: Records dropped because an equal or similar one is kept.
        filtered: Records dropped by a cleaning rule.
        quarantined: Records that could not be used; their bytes are kept.
        reasons: Number of records by the reason to filter or to quarantine them.
        repeated: Additional copies of records of small classes.
        not_enlarged: Kept images that are smaller than --resize asks, and were not scaled up.
        excluded: Records that were removed from the set, or kept out of it; see `removed_records`.
        dropped_objects: Objects that were left out of kept images, by the reason.
    """

    read: int
    kept: int
    duplicates: int
    filtered: int
    quarantined: int
    reasons: Mapping[str, int]
    repeated: int = 0
    not_enlarged: int = 0
    excluded: int = 0
    dropped_objects: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        left_out = self.duplicates + self.filtered + self.quarantined + self.excluded
        if self.read != self.kept + left_out:
            raise DamageError(
                "The ledger does not add up: read != kept + duplicates + filtered + quarantined + "
                f"excluded, {self.read} != {self.kept} + {self.duplicates} + {self.filtered} + "
                f"{self.quarantined} + {self.excluded}. In a build this is a bug: please report it "
                "with the command."
            )


@dataclasses.dataclass(frozen=True)
class Generation:
    """One build that a set with generations consists of.

    Attributes:
        folder: Folder of its own shard set, relative to the set; empty for the first one.
        root_hash: Root hash of its own manifest.
        view: Root hash of the set when this was its newest generation; empty for the newest one,
            whose view is the manifest that says so.
    """

    folder: str
    root_hash: str
    view: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of manifest.json.

    Attributes:
        name: The first part of every shard's file name.
        schema: The features of an example.
        splits: By name, in the order the user gave.
        ledger: What became of every record.
        config: Every option that has an effect on the bytes.
        files: SHA-256 and size of every other file of the set, by name relative to it.
        generations: The builds that the set consists of, the first one first; empty for a set that
            was never appended to.
        home: Folder of the indexes, relative to the set; empty for the set itself.
    """

    name: str
    schema: Schema
    splits: Mapping[str, SplitInfo]
    ledger: Ledger
    config: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]
    generations: tuple[Generation, ...] = ()
    home: str = ""

    def index_file(self, split: str) -> str:
        """The index of a split, or the first part of it, relative to the set."""
        return self.index_parts(split)[0].file

    def index_parts(self, split: str) -> tuple[IndexPart, ...]:
        """The files of the index of a split, in the order of their shards; one, or several."""
        info, file = self.splits[split], naming.below(self.home, naming.index_file(split))
        return info.index or (IndexPart(file, len(info.shards)),)

    def shards_by_part(self, split: str) -> Iterator[tuple[IndexPart, range]]:
        """Yields the files of the index of a split, and the shards whose rows each has."""
        first = 0
        for part in self.index_parts(split):
            yield part, range(first, first + part.shards)
            first += part.shards

    def index_part_of(self, split: str, shard: int) -> str:
        """The file of the index that has the rows of a shard, relative to the set."""
        return next(part.file for part, own in self.shards_by_part(split) if shard in own)

    def index_files(self, split: str) -> list[str]:
        """The files that lead to the records of a split: its index, and the list of its shards."""
        files = [part.file for part in self.index_parts(split)]
        return [*files, self.shards_file(split)] if self.splits[split].index else files

    def shards_file(self, split: str) -> str:
        """The list of the shards of a split whose index is in parts, relative to the set."""
        return naming.below(self.home, naming.shards_file(split))

    def has_shard_lists(self) -> bool:
        """Whether the shards of every split can be read."""
        return all(split.has_shard_list() for split in self.splits.values())

    @property
    def format_version(self) -> int:
        """The first version that has such sets."""
        duplicates_in_parts = any(map(naming.DUPLICATES_PART.fullmatch, self.files))
        if duplicates_in_parts or any(split.index for split in self.splits.values()):
            return PARTS_VERSION
        return GENERATIONS_VERSION if self.generations else FORMAT_VERSION

    @property
    def newest(self) -> int:
        """Number of the newest generation; 0 for a set that was never appended to."""
        return max(0, len(self.generations) - 1)

    @property
    def root_hash(self) -> str:
        """SHA-256 in hex over the canonical JSON of everything else."""
        return root_hash_of(self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "format_version": self.format_version,
            "name": self.name,
            "schema": self.schema.to_json(),
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.bytes,
                    "statistics": dict(split.statistics),
                    **_shards(split),
                }
                for name, split in self.splits.items()
            },
            "ledger": self._ledger(),
            "config": dict(self.config),
            "files": {name: dict(info) for name, info in sorted(self.files.items())},
            **self._generations(),
        }

    def _generations(self) -> dict[str, Any]:
        if not self.generations:
            return {}
        sets = [dataclasses.asdict(one) for one in self.generations]
        return {"generations": {"home": self.home, "sets": sets}}

    def _ledger(self) -> dict[str, Any]:
        ledger = dataclasses.asdict(self.ledger)
        # Older sets do not have these keys.
        for name in ("repeated", "not_enlarged", "excluded", "dropped_objects"):
            if not ledger[name]:
                del ledger[name]
        return ledger

    def to_text(self) -> str:
        """The content of manifest.json."""
        return json.dumps({**self._content(), "root_hash": self.root_hash}, indent=1) + "\n"

    def summary(self) -> dict[str, Any]:
        """The ledger, the root hash, and records, shards and bytes per split, for `--json`."""
        ledger = dataclasses.asdict(self.ledger)
        return {
            **ledger,
            "root_hash": self.root_hash,
            "splits": {
                name: {"records": split.records, "shards": len(split.shards), "bytes": split.bytes}
                for name, split in self.splits.items()
            },
        }


def _shards(split: SplitInfo) -> dict[str, Any]:
    if not split.index:
        return {"shards": [dataclasses.asdict(shard) for shard in split.shards]}
    parts = [dataclasses.asdict(part) for part in split.index]
    return {"shards": len(split.shards), "index": parts}


def root_hash_of(content: Mapping[str, Any]) -> str:
    """SHA-256 in hex over the canonical JSON of a manifest without its root hash."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def cleaning_steps(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, "parameter=value, ...") of every step in order; empty if the config has no list.

    Args:
        config: Options in the manifest; "clean" is a list of {"step": name, parameter: value, ...}.
    """
    steps = config.get("clean")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    return [(str(step.get("step", "")), _parameters(step)) for step in steps]


def _parameters(step: Mapping[str, Any]) -> str:
    values = {name: value for name, value in step.items() if name != "step"}
    written = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return ", ".join(written)
