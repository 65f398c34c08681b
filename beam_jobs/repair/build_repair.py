"""Restores the damaged files of one build: a whole set, or a generation.

Each file comes from its cheapest source: the manifest; the whole records of a damaged shard, with
the others from the corpus; a whole build next to the set, whose files replace damaged ones if they
have their SHA-256. A compacted set is built as its first build and appends, and then compacted.
Names are relative to the folder of the build.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import PreprocessOptions
from beam_jobs.repair.finished import make_room
from beam_jobs.repair.jobs import BuildJobs, RepairJob
from beam_jobs.repair.read_items import is_whole, listed_ids, missing_ids
from beam_jobs.repair.records import LostRecord, RecordRepair, has_own_records
from beam_jobs.stages.list import Listing
from beam_jobs.staging.item_list import hashes_in, listed_hashes, write_item_list
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import (
    DamageError,
    Manifest,
    ShardInfo,
    ShardmillError,
    file_info,
    load_build,
    load_manifest,
    naming,
    open_index,
)
from shard_format.checksums import build_text, whole_build
from shard_format.croissant import renew_description, write_croissant
from shard_format.duplicates import count_duplicates, duplicates_files
from shard_format.expected_files import (
    FINGERPRINTS_KEY,
    Expected,
    ExpectedFiles,
    fingerprint_files,
)
from shard_format.fingerprint_files import files_in, whole_file
from shard_format.naming import below
from shard_format.papers import PAPERS_KEY, CopiedFacts, copied_facts, papers_text
from shard_format.removed_records import RemovedRecords, parse_removed
from shard_format.shard_list import write_shard_list
from shard_format.tfds_metadata import tfds_files

_UNKNOWN = Expected(naming.STORED_RECORDS, 0, "")  # no build.json has the checksum
_NO_FACTS = CopiedFacts({}, "")
OTHER_BUILD = "the sources or the libraries have changed: a build has another root hash"
_OTHER_COMPACTED = (
    "the builds that were compacted, built and compacted again, have another root hash: the "
    "sources or the libraries have changed, or the set was compacted between appends"
)


class BuildRepair:
    """The repair of one build.

    Args:
        job: Common state of the repair.
        number: Number of the generation; None if the set has only one.
        blocked: Reason for which the build cannot be built again; "" if there is none.

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
        self._set = self._work / "set"  # the whole build
        self._jobs = BuildJobs(job, self._directory, number, self._work)
        self._blocked = blocked
        self._built: Manifest | None = None
        self._is_tried = False
        self.repaired: list[str] = []
        self.lost: list[LostRecord] = []
        self.unrecovered: list[Expected] = []
        self.reason = ""

    def restore(self, manifest: Manifest, names: set[str]) -> None:
        """Replaces damaged files, each from its cheapest source; all but the report.

        Args:
            manifest: Manifest of the build.
            names: All damaged files, and no others.
        """
        build = whole_build(self._directory)
        own = ExpectedFiles(manifest, fingerprint_files(build))
        items = {one.file for one in own if whole_file(one.file) == naming.READ_ITEMS}
        self.unrecovered = [one for one in own if one.file in names - items]
        if naming.BUILD in names and self._has_unknown_stored():
            self.unrecovered.append(_UNKNOWN)
        for take in (self._take_lists, self._take_derived, self._take_built, self._take_records):
            ready = list(take(manifest, self.unrecovered)) if self.unrecovered else []
            self._all.finished.replace(ready, self._directory)
            self.repaired += [below(self._folder, one.file) for one in ready]
            taken = {one.file for one in ready}
            self.unrecovered = [one for one in self.unrecovered if one.file not in taken]
        lost = naming.BUILD in names
        facts = self._copied_facts() if lost else _NO_FACTS
        is_known = _UNKNOWN not in self.unrecovered
        self.unrecovered = [one for one in self.unrecovered if one != _UNKNOWN]
        described = {naming.CROISSANT} & names
        for split, info in manifest.splits.items():
            described |= names.intersection(naming.table_files(split, len(info.index)))
        if lost:
            self._restore_build(manifest, facts, is_known=is_known)
        if described and not self.unrecovered:
            for name in described:
                make_room(self._directory / name)
            write_croissant(self._directory, manifest)
            self.repaired += [below(self._folder, name) for name in sorted(described)]
        elif lost and whole_build(self._directory):
            renew_description(self._directory, manifest)
        if not lost and build:
            if names & items:
                self._list_items(build, manifest)
            renewed = {whole_file(file) for file in self.repaired}
            kinds = [
                kind for kind in naming.FINGERPRINT_FILES if below(self._folder, kind) in renewed
            ]
            if kinds:
                self._write_build(build, manifest, kinds)

    def _has_unknown_stored(self) -> bool:
        """Returns whether a damaged build.json has lost the checksum of the stored records.

        Another part of it may be damaged, so that it still has the right one.
        """
        known = {one.file: one for one in fingerprint_files(load_build(self._directory))}
        present = files_in(self._directory, naming.STORED_RECORDS)
        return not all(name in known and is_whole(self._directory, known[name]) for name in present)

    # A whole build next to the set

    def built(self, manifest: Manifest | None, root_hash: str, why: str) -> Manifest | None:
        """Returns the manifest of a whole build of this very set; else None, and sets `reason`.

        Args:
            manifest: Manifest of the damaged build; None if it is lost.
            root_hash: Root hash that the build must have.
            why: File that needs the build, relative to the folder.
        """
        built = self._build(manifest, why)
        if built is None or built.root_hash == root_hash:
            return built
        self.reason = self._why_other()
        return None

    def _build(self, manifest: Manifest | None, why: str) -> Manifest | None:
        """Builds the set once; returns None and sets `reason` if that is impossible."""
        if self._is_tried:
            return self._built
        self._is_tried = True
        first = self._jobs.first(manifest)
        if first is None or self._blocked:
            self.reason = self._blocked or self._jobs.why_none(manifest)
            return None
        try:
            jobs = self._jobs.as_read(self._jobs.all(first), manifest)
        except (ShardmillError, OSError) as error:
            self.reason = self.reason or str(error)
            return None
        what, room = self._folder or "the set", "as large"
        if self._jobs.is_compacted:
            room = "twice as large"
        why = below(self._folder, why)
        self._all.on_note(f"{why} needs a whole build next to the set, {room} as {what}")
        try:
            self._run(jobs, manifest)
            self._built = load_manifest(self._set)
        except ShardmillError as error:
            self.reason = str(error)
        return self._built

    def _run(self, jobs: Sequence[PreprocessOptions], manifest: Manifest | None) -> None:
        from beam_jobs.run import preprocess  # Beam, which repairs of single records lack

        if storage.stat(self._set / naming.MANIFEST):  # of a killed repair, from other sources
            storage.delete_tree(self._set)
        removed = self._removed_records(manifest)
        changes: dict[str, Any] = {"out": str(self._set), "no_report": True, "keep_empty": True}
        if removed is not None:  # it has the ids of --exclude-ids too, whose file may have grown
            place = str(self._directory / naming.REMOVED)
            changes["exclude_ids"] = None
            changes["kept_out"] = () if self._jobs.is_compacted else (place,)
        matched = self._matched_records(manifest)
        if matched is not None:  # so the sets of --against are not needed
            changes |= {"against": None, "matched": matched}
        first, *others = [dataclasses.replace(job, **changes) for job in jobs]
        show = self._all.on_progress
        preprocess(first, on_progress=show)
        for job in others:
            append(dataclasses.replace(job, append=True), on_progress=show)
        if self._jobs.is_compacted:
            if removed is not None:
                ids = listed_ids(self._set, removed)
            else:
                ids = missing_ids(self._set, self._directory, manifest)
            compact(self._set, ids)

    def _removed_records(self, manifest: Manifest | None) -> RemovedRecords | None:
        """Returns the records that the build keeps out; None if there is no whole list of them."""
        for name in (naming.REMOVED, naming.REMOVED_COPY):
            place = self._directory / name
            named = manifest.files.get(name) if manifest is not None else None
            with contextlib.suppress(OSError, DamageError):
                if manifest is None or file_info(place) == named:
                    return parse_removed(storage.read_bytes(place), str(place))
        return None

    def _matched_records(self, manifest: Manifest | None) -> tuple[str, ...] | None:
        """Returns the files that name records which are in other sets; None if one is damaged."""
        if manifest is None:
            return None
        files = duplicates_files(manifest)
        expected = [Expected(file, **manifest.files[file]) for file in files]
        if not all(is_whole(self._directory, one) for one in expected):
            return None
        counts = count_duplicates(self._directory, manifest)
        # Without any, the job is planned as it was, perhaps in rounds.
        return tuple(str(self._directory / file) for file in files if counts and counts.others)

    def _why_other(self) -> str:
        return _OTHER_COMPACTED if self._jobs.is_compacted else OTHER_BUILD

    # Files with a known checksum

    def _take_derived(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes files that follow from the manifest."""
        if not manifest.has_shard_lists():
            return []
        contents = tfds_files(manifest.name, manifest.schema, manifest.splits)
        return [
            one
            for one in wanted
            if one.file in contents and self._all.finished.write(one, [contents[one.file]])
        ]

    def _take_lists(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes the lists of shards of large splits, which follow from the shards and the index."""
        ready = []
        for split, info in manifest.splits.items():
            for one in [one for one in wanted if one.file == manifest.shards_file(split)]:
                draft = self._work / "shards.arrow"
                storage.make_folder(self._work)
                with contextlib.suppress(OSError, ShardmillError):
                    write_shard_list(draft, self._listed_shards(manifest, split, len(info.shards)))
                    ready += [one] * self._all.finished.move(one, draft)
        return ready

    def _listed_shards(self, manifest: Manifest, split: str, count: int) -> list[ShardInfo]:
        rows: dict[int, int] = {}
        for part in manifest.index_parts(split):
            counts = pc.value_counts(open_index(self._directory / part.file)["shard"])
            rows |= {item["values"]: item["counts"] for item in counts.to_pylist()}
        shards = []
        for number in range(count):
            file = naming.shard_file(manifest.name, split, number, count)
            info = file_info(self._directory / file)
            shards.append(ShardInfo(file, rows.get(number, 0), info["bytes"], info["sha256"]))
        return shards

    def _take_built(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes files of a whole build, if one of them has no other source."""
        indexes = {manifest.index_part_of(one.split, one.number) for one in wanted if one.split}
        needed = [one for one in wanted if not one.split]
        if not needed and has_own_records(manifest) and not indexes & {one.file for one in wanted}:
            return []
        built = self._build(manifest, needed[0].file if needed else "shards")
        if built is None:
            return []
        ready = []
        stored = [one for one in wanted if whole_file(one.file) == naming.STORED_RECORDS]
        if stored and built.root_hash == manifest.root_hash:
            # Their order follows from modification times, and so does in which part they are:
            # all are replaced, and build.json gets the new checksums.
            files = files_in(self._set, naming.STORED_RECORDS)
            for name in {*files_in(self._directory, naming.STORED_RECORDS)}.difference(files):
                storage.delete(self._directory / name)
            others = [one for one in wanted if one not in stored]
            own = [Expected(name, **file_info(self._set / name)) for name in files]
            wanted = self.unrecovered = [*others, *own]
        for one in wanted:
            place = self._set / one.file
            if storage.stat(place) is not None and self._all.finished.move(one, place):
                ready.append(one)
        if {one.file for one in wanted} - {one.file for one in ready}:
            self.reason = self._why_other()
        return ready

    def _take_records(self, manifest: Manifest, wanted: list[Expected]) -> list[Expected]:
        """Takes shards that are assembled from their whole records and those of the corpus."""
        shards = [one for one in wanted if one.split]
        index_of = {one: manifest.index_part_of(one.split, one.number) for one in shards}
        broken = {one.file for one in wanted} & set(index_of.values())
        if broken:
            self.reason += f" Without {', '.join(sorted(broken))} no record can be named."
            shards = [one for one in shards if index_of[one] not in broken]
        if not shards:
            return []
        job = self._jobs.first(manifest)
        staging = storage.place_of(job.staging) if job is not None and job.staging else None
        work = Workspace(self._work / "records", staging)
        records = RecordRepair(self._directory, manifest, shards, work)
        reason = self.reason
        if records.missing and has_own_records(manifest):
            if job is None:
                reason = self._jobs.why_none(manifest)
            else:
                reason = self._take_from_corpus(records, job)
                records.doubt_whole_records(self._all.finished)
                if records.missing and not reason:
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

    # build.json, and the list of items whose checksum it has

    def _copied_facts(self) -> CopiedFacts:
        """Returns the facts of build.json that croissant.json has a copy of."""
        facts = None
        with contextlib.suppress(OSError):
            facts = copied_facts(storage.read_bytes(self._directory / naming.CROISSANT))
        if facts is None:
            self._all.on_note(
                f"license, citation and card were in {below(self._folder, naming.BUILD)}, and "
                f"{naming.CROISSANT} has no whole copy of them. Give them again, if the set had any"
            )
        return facts or _NO_FACTS

    def _restore_build(self, manifest: Manifest, facts: CopiedFacts, *, is_known: bool) -> None:
        """Writes build.json without times and machine, which only the lost one had.

        Args:
            manifest: Manifest of the build.
            facts: What is known of the lost one.
            is_known: Whether the stored records are whole, as far as that can be said.
        """
        first, listed = self._jobs.first(manifest), self._list(manifest)
        if first is None or listed is None:
            return
        # The same command finds the set built by the id.
        build_id = listed[0].build_id if self._keep_items(listed[1]) else ""
        options = dataclasses.asdict(first) | {PAPERS_KEY: papers_text(facts.papers)}
        content = {"build_id": build_id, "options": options, "repaired": True}
        if facts.version:
            content["packages"] = {"shardmill": facts.version}
        if is_known:
            self._write_build(content, manifest, naming.FINGERPRINT_FILES)
        else:
            self._write(naming.BUILD, build_text(content, manifest))  # without their checksum

    def _list_items(self, build: dict[str, Any], manifest: Manifest) -> None:
        """Writes the list of items that the build has read, from a listing of its sources.

        Without the sources there is none. The set is whole without the list: the next append reads
        all of its sources.
        """
        listed = self._list(manifest)
        before = files_in(self._directory, naming.READ_ITEMS)
        if listed is None or listed[0].build_id != build.get("build_id"):
            self._leave_out_items()
            names = [naming.READ_ITEMS]
        else:
            make_room(self._directory / naming.READ_ITEMS)
            names = list(write_item_list(listed[1], self._directory))
            for name in set(before).difference(names):
                storage.delete(self._directory / name)
        self.repaired += [below(self._folder, name) for name in names]

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

    def _leave_out_items(self) -> None:
        self._all.on_note(
            f"{below(self._folder, naming.READ_ITEMS)} is left out: the sources have changed or "
            "are gone. An append of the same sources reads them again"
        )
        place = self._directory / naming.READ_ITEMS
        make_room(place)  # in place of a folder
        for name in files_in(self._directory, naming.READ_ITEMS):
            storage.delete(self._directory / name)
        path = storage.local_path(place.parent)
        if path is not None:
            with contextlib.suppress(OSError):  # other files are in it
                path.rmdir()

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

    def _write_build(
        self, content: dict[str, Any], manifest: Manifest, renewed: Iterable[str]
    ) -> None:
        """Writes build.json with the checksums of files in `fingerprints/` that are new or gone.

        Args:
            content: What build.json has besides.
            manifest: Manifest of the build.
            renewed: The kinds that are new or gone, of `naming.FINGERPRINT_FILES`.
        """
        before = dict(content.get(FINGERPRINTS_KEY) or {})
        named: dict[str, Any] = {}
        for kind in naming.FINGERPRINT_FILES:
            if kind in renewed:
                files = files_in(self._directory, kind)
                named |= {name: file_info(self._directory / name) for name in files}
            else:
                named |= {name: before[name] for name in before if whole_file(name) == kind}
        text = build_text({**content, FINGERPRINTS_KEY: named}, manifest)
        place = self._directory / naming.BUILD
        if storage.stat(place) is None or text != storage.read_bytes(place):
            self._write(naming.BUILD, text)

    def _write(self, name: str, content: bytes) -> None:
        make_room(self._directory / name)
        storage.write_bytes(self._directory / name, content, durable=True)
        self.repaired.append(below(self._folder, name))
