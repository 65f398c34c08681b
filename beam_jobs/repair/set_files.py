"""Restores the damaged files of one build: a whole set, or a generation.

Each file comes from its cheapest source: the manifest; the whole records of a damaged shard, with
the others from the corpus; a whole build. Names are relative to the folder of the build.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.options import PreprocessOptions
from beam_jobs.repair.compacted import removed_ids
from beam_jobs.repair.finished import make_room
from beam_jobs.repair.job import build_again
from beam_jobs.repair.own_items import is_whole
from beam_jobs.repair.own_jobs import OwnJobs, RepairJob
from beam_jobs.repair.rebuild import Rebuild
from beam_jobs.repair.records import LostRecord, RecordRepair, has_own_records
from beam_jobs.stages.list import Listing
from beam_jobs.staging.read_items import hashes_in, listed_hashes, write_read_items
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import DamageError, Manifest, ShardmillError, file_info, load_build, naming
from shard_format.croissant import write_croissant
from shard_format.derived_files import derived_files
from shard_format.expected_files import (
    FINGERPRINTS_KEY,
    Expected,
    expected_files,
    fingerprint_files,
    whole_build,
)
from shard_format.naming import below
from shard_format.own_checksums import build_text
from shard_format.removed_records import RemovedRecords, parse_removed

_FINGERPRINTS = (naming.STORED_RECORDS, naming.READ_ITEMS)
_SET = "set"  # a whole build, in the work folder of a build that is repaired
OTHER_BUILD = "the sources or the libraries have changed: a build has another root hash"
_OTHER_COMPACTED = (
    "the builds that were compacted, built and compacted again, have another root hash: the "
    "sources or the libraries have changed, or the set was compacted between appends"
)


class SetRepair:
    """The repair of one build.

    Args:
        job: Common state of the repair.
        number: Number of the generation; None if the set has only one.
        blocked: Reason for which no whole build is possible, if that is known.

    Attributes:
        repaired: Files that were written again, relative to the set.
        lost: Records that could not be restored.
        unrecovered: Files that could not be restored, relative to the folder of the build.
        reason: Reason for which no build could provide files; "" if none was needed.
    """

    def __init__(self, job: RepairJob, number: int | None, blocked: str = "") -> None:
        self._all = job
        self._folder = naming.generation_folder(number) if number else ""
        self._directory = job.directory / self._folder if number else job.directory
        self._work = job.work / f"{number or 0:04d}"
        self._jobs = OwnJobs(job, self._directory, number, self._work)
        self._blocked = blocked
        self._rebuild: Rebuild | None = None
        self.repaired: list[str] = []
        self.lost: list[LostRecord] = []
        self.unrecovered: list[Expected] = []
        self.reason = ""

    def restore(self, manifest: Manifest, names: set[str]) -> None:
        """Replaces damaged files, each from its cheapest source.

        Args:
            manifest: Manifest of the build.
            names: All damaged files, and no others.
        """
        build = whole_build(self._directory)
        own = [*expected_files(manifest), *fingerprint_files(build)]
        self.unrecovered = [
            one for one in own if one.file in names and one.file != naming.READ_ITEMS
        ]
        for take in (self._take_derived, self._take_built, self._take_records):
            ready = list(take(manifest, self.unrecovered)) if self.unrecovered else []
            self._all.finished.replace(ready, self._directory)
            self.repaired += [below(self._folder, one.file) for one in ready]
            self.unrecovered = [one for one in self.unrecovered if one not in ready]
        if any(one.file == naming.STORED_RECORDS for one in self.unrecovered):
            self._take_stored(manifest)
        if naming.READ_ITEMS in names and build:
            self._list_items(build, manifest)

    def _build(self, manifest: Manifest | None, why: str) -> Rebuild | None:
        """Returns a whole build; None if its options are unknown."""
        if self._rebuild is None:
            first = self._jobs.first(manifest)
            if first is None or self._blocked:
                self.reason = self._blocked or self._jobs.why_none(manifest)
                return None
            try:
                jobs = self._jobs.as_read(self._jobs.all(first), manifest)
            except (ShardmillError, OSError) as error:
                self.reason = self.reason or str(error)
                return None
            what = self._folder or "the set"
            room = "twice as large" if self._jobs.is_compacted else "as large"
            self._all.on_note(f"{why} needs a whole build next to the set, {room} as {what}")
            listed = self._removed_records(manifest)
            if listed is not None:  # it has the ids of --exclude-ids too, whose file may have grown
                place = str(self._directory / naming.REMOVED)
                kept_out = () if self._jobs.is_compacted else (place,)
                jobs = [
                    dataclasses.replace(one, exclude_ids=None, kept_out=kept_out) for one in jobs
                ]
            removed = partial(
                removed_ids, directory=self._directory, manifest=manifest, listed=listed
            )
            self._rebuild = Rebuild(
                self._work / _SET,
                jobs,
                removed if self._jobs.is_compacted else None,
                self._all.on_progress,
            )
        return self._rebuild

    def _removed_records(self, manifest: Manifest | None) -> RemovedRecords | None:
        """Returns the records that the build keeps out; None if their list is damaged."""
        place = self._directory / naming.REMOVED
        named = manifest.files.get(naming.REMOVED) if manifest is not None else None
        try:
            data = storage.read_bytes(place)
            if manifest is not None and (named is None or file_info(place) != named):
                return None
            return parse_removed(data, str(place))
        except (OSError, DamageError):
            return None

    def built(self, manifest: Manifest | None, root_hash: str, why: str) -> Manifest | None:
        """Returns the manifest of a whole build of this very set; else None, and sets `reason`.

        Args:
            manifest: Manifest of the damaged build; None if it is lost.
            root_hash: Root hash that the build must have.
            why: File that needs the build, relative to the folder.
        """
        rebuild = self._build(manifest, below(self._folder, why))
        if rebuild is None:
            return None
        built = rebuild.manifest()
        if built is None or built.root_hash != root_hash:
            self.reason = rebuild.problem or self._why_other()
            return None
        return built

    def _why_other(self) -> str:
        return _OTHER_COMPACTED if self._jobs.is_compacted else OTHER_BUILD

    def _take_derived(self, manifest: Manifest, wanted: list[Expected]) -> Iterator[Expected]:
        """Yields files that follow from the manifest."""
        contents = derived_files(manifest)
        for one in wanted:
            if one.file in contents and self._all.finished.write(one, [contents[one.file]]):
                yield one

    def _take_built(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes files of a whole build, if one of them has no other source."""
        indexes = {naming.index_file(one.split) for one in wanted if one.split}
        needed = [one for one in wanted if not one.split]
        if not needed and has_own_records(manifest) and not indexes & {one.file for one in wanted}:
            return []
        why = below(self._folder, needed[0].file) if needed else "shards"
        rebuild = self._build(manifest, why)
        if rebuild is None:
            return []
        ready = rebuild.take(wanted, self._all.finished)
        if len(ready) < len(wanted):
            self.reason = rebuild.problem or self._why_other()
        return ready

    def _take_records(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes shards that are assembled from their whole records and those of the corpus."""
        shards = [one for one in wanted if one.split]
        indexes = {naming.index_file(one.split) for one in shards}
        broken = {one.file for one in wanted} & indexes
        if broken:
            self.reason += f" Without {', '.join(sorted(broken))} no record can be named."
            shards = [one for one in shards if naming.index_file(one.split) not in broken]
        if not shards:
            return []
        job = self._jobs.first(manifest)
        staging = storage.place_of(job.staging) if job is not None and job.staging else None
        work = Workspace(self._work / "records", staging)
        records = RecordRepair(self._directory, manifest, shards, work)
        records.take_copies()
        reason = self.reason
        if records.missing and has_own_records(manifest):
            if job is None:
                reason = self._jobs.why_none(manifest)
            else:
                reason = self._take_from_corpus(records, job)
        ready, lost = records.finish(self._all.finished, reason)
        self.lost = [one._replace(file=below(self._folder, one.file)) for one in lost]
        return ready

    def _take_from_corpus(self, records: RecordRepair, job: PreprocessOptions) -> str:
        """Takes missing records from sources and staging; returns why not, or "".

        The ids of a compacted set are those that its builds gave, each to its own sources.
        """
        show, reason = self._all.on_progress, ""
        for one in self._jobs.all(job):
            if records.missing:
                problem = records.take_from_sources(
                    one, lambda done, total: show("stage", done, total)
                )
                reason = reason or problem
        records.take_from_staging(job)
        return reason

    # Files that the manifest does not name

    def _take_stored(self, manifest: Manifest) -> None:
        """Takes the stored records of a build of this very set; their rows may be in other order.

        The order is that of the keys of units, which depend on modification times. So build.json
        gets the new checksum.
        """
        if self._build_stored(manifest):
            build = whole_build(self._directory)
            self._write_build(build, manifest, [naming.STORED_RECORDS])
            self.reason = ""
            self.unrecovered = [
                one for one in self.unrecovered if one.file != naming.STORED_RECORDS
            ]

    def _build_stored(self, manifest: Manifest) -> bool:
        if self.built(manifest, manifest.root_hash, naming.STORED_RECORDS) is None:
            return False
        place = self._work / _SET / naming.STORED_RECORDS
        if storage.stat(place) is None:  # a set with the same records, and no need for them
            return False
        one = Expected(naming.STORED_RECORDS, **file_info(place))
        if not self._all.finished.copy(one, place):
            return False
        self._all.finished.replace([one], self._directory)
        self.repaired.append(below(self._folder, naming.STORED_RECORDS))
        return True

    def _list_items(self, build: dict[str, Any], manifest: Manifest) -> None:
        """Writes the list of items that the build has read, from a listing of its sources.

        Without the sources there is none. The set is whole without the list: the next append reads
        all of its sources.
        """
        listed = self._list(manifest)
        if listed is None or listed[0].build_id != build.get("build_id"):
            self._leave_out_items()
        else:
            write_read_items(Workspace(self._directory, None), (), listed[1])
        self.repaired.append(below(self._folder, naming.READ_ITEMS))
        self._write_build(build, manifest, [naming.READ_ITEMS])

    def _leave_out_items(self) -> None:
        self._all.on_note(
            f"{below(self._folder, naming.READ_ITEMS)} is left out: the sources have changed or "
            "are gone. An append of the same sources reads them again"
        )
        place = self._directory / naming.READ_ITEMS
        make_room(place)  # in place of a folder
        storage.delete(place)
        path = storage.local_path(place.parent)
        if path is not None:
            with contextlib.suppress(OSError):  # other files are in it
                path.rmdir()

    def _write_build(
        self, content: dict[str, Any], manifest: Manifest, renewed: Sequence[str]
    ) -> None:
        """Writes build.json with the checksums of files in `fingerprints/` that are new or gone."""
        named = dict(content.get(FINGERPRINTS_KEY) or {})
        for name in renewed:
            named.pop(name, None)
            if storage.stat(self._directory / name) is not None:
                named[name] = file_info(self._directory / name)
        named = {name: named[name] for name in _FINGERPRINTS if name in named}
        text = build_text({**content, FINGERPRINTS_KEY: named}, manifest)
        if storage.stat(self._directory / naming.BUILD) is None or text != storage.read_bytes(
            self._directory / naming.BUILD
        ):
            self._write(naming.BUILD, text)

    def _write(self, name: str, content: bytes) -> None:
        make_room(self._directory / name)
        storage.write_bytes(self._directory / name, content, durable=True)
        self.repaired.append(below(self._folder, name))

    def write_own_files(self, manifest: Manifest, names: set[str]) -> None:
        """Restores damaged files that the manifest does not name, except the report."""
        described = {naming.CROISSANT, *map(naming.table_file, manifest.splits)} & names
        if described and not self.unrecovered:
            for name in described:
                make_room(self._directory / name)
            write_croissant(self._directory, manifest)
            self.repaired += [below(self._folder, name) for name in sorted(described)]
        if naming.BUILD not in names:
            return
        first, listed = self._jobs.first(manifest), self._list(manifest)
        if first is None or listed is None:
            return
        known = {one.file: one for one in fingerprint_files(load_build(self._directory))}
        is_same = self._keep_items(listed[1])
        content = build_again(first, listed[0].build_id if is_same else "")
        place = self._directory / naming.STORED_RECORDS
        # Another part of build.json may be damaged, so that it still says the right checksum.
        if storage.stat(place) and not self._is_whole(known.get(naming.STORED_RECORDS)):
            if not self._build_stored(manifest):
                self._write(naming.BUILD, build_text(content, manifest))  # without their checksum
                return
        self._write_build(content, manifest, _FINGERPRINTS)

    def _keep_items(self, listed: Workspace) -> bool:
        """Returns whether the list of items is that of a listing; deletes one that is damaged.

        A new list would name files that have changed since as read.
        """
        place = self._directory / naming.READ_ITEMS
        try:
            return bool(np.array_equal(hashes_in(place), np.unique(listed_hashes(listed))))
        except (pa.ArrowException, OSError):
            self._leave_out_items()
            return False

    def _is_whole(self, one: Expected | None) -> bool:
        return one is not None and is_whole(self._directory, one)

    def _list(self, manifest: Manifest) -> tuple[Listing, Workspace] | None:
        """Returns a listing of the sources and its workspace; else None, and sets `reason`."""
        first = self._jobs.first(manifest)
        if first is None:
            self.reason = self.reason or self._jobs.why_none(manifest)
            return None
        try:
            return self._jobs.listed(first, manifest)
        except (ShardmillError, OSError) as error:
            self.reason = self.reason or str(error)
            return None
