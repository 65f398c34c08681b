"""The repair of a set: what is damaged, in which order it is had, and what remains lost.

The cheapest source of a file comes first: a file of the set that has its content, the manifest, the
whole records of a damaged shard with others from the sources, a whole build. Nothing takes a place
in the set unless it has the SHA-256 of the manifest, and whole files are never touched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from beam_jobs.build import resolve
from beam_jobs.progress import OnProgress
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.repair.finished import FinishedFiles, make_room
from beam_jobs.repair.job import (
    build_again,
    job_of,
    whole_build,
)
from beam_jobs.repair.rebuild import Rebuild
from beam_jobs.repair.records import LostRecord, RecordRepair, has_own_records
from beam_jobs.stages.list import list_corpus
from beam_jobs.workspace import Workspace
from shard_format import (
    Damage,
    DamageError,
    InputError,
    Manifest,
    ShardmillError,
    UsageError,
    load_build,
    load_manifest,
    naming,
    storage,
    verify_set,
)
from shard_format.croissant import write_croissant
from shard_format.derived_files import derived_files
from shard_format.errors import file_error
from shard_format.expected_files import Expected, expected_files
from shard_format.storage import Place
from shard_format.verification import Verified, manifest_to_verify

_OTHER_BUILD = "the sources or the libraries have changed: a build has another root hash"
REPAIR_DIR = f"{naming.WORK_DIR}/repair"


class Repaired(NamedTuple):
    """The result of a repair.

    Attributes:
        manifest: Of the set.
        repaired: Files that were written again, relative to the set.
        deleted: Extra files that were deleted.
        lost: Records that cannot be had; the shards that lack them are as they were.
        left: What is damaged still, or is not part of the set.
        reason: Why files were not had from a build; "" if none was needed.
    """

    manifest: Manifest
    repaired: list[str]
    deleted: list[str]
    lost: list[LostRecord]
    left: list[Damage]
    reason: str


def repair(
    directory: Place,
    sources: Sequence[str] = (),
    *,
    delete_extra: bool = False,
    on_progress: OnProgress = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Repaired:
    """Writes the damaged files of a set again, byte for byte, and nothing else.

    A repair that is killed is completed by the next one.

    Args:
        directory: The set.
        sources: Where the corpus is now; none if it has not moved.
        delete_extra: Whether to delete files that are not part of the set.
        on_progress: Called with (stage, done, in all) for "verify" and "stage", in bytes, and for
            the stages of a build where one is needed; from other threads.
        on_note: Called with what takes long, and why.

    Raises:
        UsageError: A source is given that does not exist.
        ShardSetError: There is no set.
        DamageError: The manifest is damaged, and cannot be had.
        InputError: The set cannot be written, or has several generations.
    """
    for source in sources:
        if "*" not in source and not storage.exists(storage.place_of(source)):
            raise UsageError(f"There is no source {source}. Check the path.")
    with contextlib.suppress(DamageError):
        manifest_to_verify(directory)  # no set at all: nothing is to be written there
    workspace = Workspace(directory, None)
    try:
        with workspace.lock(on_note):
            job = _Repair(directory, sources, on_progress, on_note)
            try:
                done = job.run(delete_extra)
            except ShardmillError:
                job.clean_up()
                raise
            job.clean_up()  # not after Ctrl-C or on a full disk: the next repair resumes
            return done
    except OSError as error:
        raise file_error(error, str(directory)) from error


class _Repair:
    def __init__(
        self,
        directory: Place,
        sources: Sequence[str],
        on_progress: OnProgress,
        on_note: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._sources = sources
        self._on_progress = on_progress
        self._on_note = on_note
        self._folder = directory / REPAIR_DIR
        self._finished = FinishedFiles(self._folder / "files")
        self._rebuild: Rebuild | None = None
        self._repaired: list[str] = []
        self._lost: list[LostRecord] = []
        self._reason = ""
        self._rest: list[Expected] = []  # what could not be had
        self._is_replacing = False  # while swapped files are whole in the work folder alone

    def run(self, delete_extra: bool) -> Repaired:
        """See `repair`."""
        manifest, damages = self._verified()
        if manifest.generations and damages:
            raise InputError(_several_generations(self._directory, damages))
        wanted = self._wanted(manifest, damages)
        self._mend(manifest, wanted, damages)
        self._write_own_files(manifest, damages)
        deleted = [damage.file for damage in damages if damage.is_extra] if delete_extra else []
        for name in deleted:
            place = self._directory / name.rstrip("/")
            storage.delete_tree(place) if name.endswith("/") else storage.delete(place)
        left = verify_set(self._directory).damages if damages else []
        return Repaired(manifest, self._repaired, deleted, self._lost, left, self._reason)

    def _verified(self) -> tuple[Manifest, list[Damage]]:
        """The manifest, put in its place again if it is damaged, and all other damage.

        Raises:
            DamageError: The manifest cannot be had.
        """
        problem = ""
        try:
            verified = self._verify()
            if not any(damage.file == naming.MANIFEST for damage in verified.damages):
                return verified.manifest, verified.damages
        except DamageError as error:
            problem = str(error)
        manifest = self._lost_manifest(problem)
        text = manifest.to_text().encode()
        make_room(self._directory / naming.MANIFEST)
        storage.write_bytes(self._directory / naming.MANIFEST, text, durable=True)
        self._repaired.append(naming.MANIFEST)
        return manifest, self._verify().damages

    def _verify(self) -> Verified:
        manifest = manifest_to_verify(self._directory)
        total = sum(one.bytes for one in expected_files(manifest))
        done, lock = 0, threading.Lock()

        def show(size: int) -> None:
            nonlocal done
            with lock:
                done += size
            self._on_progress("verify", done, total)

        return verify_set(self._directory, on_bytes=show)

    def _wanted(self, manifest: Manifest, damages: list[Damage]) -> list[Expected]:
        names = {damage.file for damage in damages if not damage.is_extra}
        return [one for one in expected_files(manifest) if one.file in names]

    def clean_up(self) -> None:
        """Deletes the work folder, unless it has files that the set lacks."""
        if self._is_replacing:
            return  # the next repair takes them
        storage.delete_tree(self._directory / naming.WORK_DIR)

    def _mend(self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]) -> None:
        """Replaces files, each from its cheapest source."""
        self._rest = rest = list(wanted)
        for take in (
            self._take_finished,
            self._take_same,
            self._take_derived,
            self._take_built,
            self._take_records,
        ):
            # All of a step before the first of them is replaced: swapped files are both copied.
            ready = list(take(manifest, rest, damages)) if rest else []
            self._is_replacing = bool(ready)
            for one in ready:
                self._finished.install(one, self._directory)
                self._repaired.append(one.file)
                rest.remove(one)
            self._is_replacing = False

    def _take_finished(
        self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]
    ) -> list[Expected]:
        """Files that a repair had ready when it was killed."""
        return [one for one in wanted if self._finished.has(one)]

    def _take_same(
        self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]
    ) -> Iterator[Expected]:
        """Yields files whose content is in the set under another name: swapped, or copied."""
        for one in wanted:
            for damage in damages:
                place = self._directory / damage.file
                if damage.same_as == one.file and self._finished.copy(one, place):
                    yield one
                    break

    def _take_derived(
        self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]
    ) -> Iterator[Expected]:
        """Yields files that follow from the manifest."""
        contents = derived_files(manifest)
        for one in wanted:
            if one.file in contents and self._finished.write(one, [contents[one.file]]):
                yield one

    def _take_built(
        self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]
    ) -> list[Expected]:
        """Files of a whole build, if one of them is neither a shard nor had otherwise."""
        indexes = {naming.index_file(one.split) for one in wanted if one.split}
        needed = [one for one in wanted if not one.split]
        if not needed and has_own_records(manifest) and not indexes & {one.file for one in wanted}:
            return []
        rebuild = self._build(manifest, "shards" if not needed else needed[0].file)
        if rebuild is None:
            return []
        ready = rebuild.take(wanted, self._finished)
        if len(ready) < len(wanted):
            self._reason = rebuild.problem or _OTHER_BUILD
        return ready

    def _build(self, manifest: Manifest | None, why: str) -> Rebuild | None:
        if self._rebuild is None:
            job = job_of(self._directory, manifest, self._sources)
            if job is None:
                self._reason = _no_job(self._directory)
                return None
            self._on_note(f"{why} needs a whole build next to the set, as large as the set")
            self._rebuild = Rebuild(self._folder / "set", job, self._on_progress)
        return self._rebuild

    def _take_records(
        self, manifest: Manifest, wanted: list[Expected], damages: list[Damage]
    ) -> list[Expected]:
        """Shards that are put together from whole records and those of the corpus."""
        shards = [one for one in wanted if one.split]
        if not shards:
            return []
        indexes = {naming.index_file(one.split) for one in shards}
        broken = {one.file for one in wanted} & indexes
        if broken:
            self._reason += f" Without {', '.join(sorted(broken))} no record can be named."
            shards = [one for one in shards if naming.index_file(one.split) not in broken]
        if not shards:
            return []
        job = job_of(self._directory, manifest, self._sources)
        staging = storage.place_of(job.staging) if job is not None and job.staging else None
        work = Workspace(self._folder / "records", staging)
        records = RecordRepair(self._directory, manifest, shards, work)
        records.take_copies()
        reason = self._reason
        if records.missing and has_own_records(manifest):
            if job is None:
                reason = _no_job(self._directory)
            else:
                reason = records.take_from_sources(
                    job, lambda done, total: self._on_progress("stage", done, total)
                )
                records.take_from_staging(job)
        ready, self._lost = records.finish(self._finished, reason)
        return ready

    # Files that the manifest does not name

    def _lost_manifest(self, problem: str) -> Manifest:
        """The manifest that belongs in the set.

        Args:
            problem: What is wrong with the one that is there.

        Raises:
            DamageError: It cannot be had.
        """
        place, build = self._directory / naming.MANIFEST, whole_build(self._directory)
        with contextlib.suppress(ShardmillError):
            found = load_manifest(self._directory)
            text = found.to_text().encode()
            if hashlib.sha256(text).hexdigest() == build.get("manifest_sha256"):
                return found  # it was only formatted
        if not build:
            raise DamageError(
                f"{problem} {self._directory / naming.BUILD} is damaged too, or of an earlier "
                "version, so nothing says which set this was. Restore one of the two from a copy, "
                "or build the set again into another folder."
            )
        rebuild = self._build(None, naming.MANIFEST)
        built = rebuild.manifest() if rebuild is not None else None
        if rebuild is None or built is None or built.root_hash != build["root_hash"]:
            why = rebuild.problem if rebuild is not None else self._reason
            raise DamageError(
                f"{place} is damaged or is that of another set, and cannot be had: "
                f"{why or _OTHER_BUILD}. Restore it from a copy, or build the set again into "
                "another folder."
            )
        return built

    def _write_own_files(self, manifest: Manifest, damages: list[Damage]) -> None:
        """Writes the files again that the manifest does not name, if they are damaged."""
        names = {damage.file for damage in damages}
        described = {naming.CROISSANT, *map(naming.table_file, manifest.splits)} & names
        if described and not self._rest:
            for name in described:
                make_room(self._directory / name)
            write_croissant(self._directory, manifest)
            self._repaired += sorted(described)
        if naming.BUILD in names:
            job = job_of(self._directory, manifest, self._sources)
            build_id = self._build_id(manifest)
            if job is not None and build_id:
                content = build_again(job, build_id, manifest)
                make_room(self._directory / naming.BUILD)
                storage.write_bytes(self._directory / naming.BUILD, content, durable=True)
                self._repaired.append(naming.BUILD)
            elif job is None:
                self._reason = self._reason or _no_job(self._directory)
        if naming.REPORT in names and not self._rest:
            from beam_jobs.report import write_report  # loads image libraries

            make_room(self._directory / naming.REPORT)
            write_report(self._directory)
            self._repaired.append(naming.REPORT)

    def _build_id(self, manifest: Manifest) -> str:
        """The address of the build in build.json, by a listing of the sources; "" without them."""
        job = job_of(self._directory, manifest, self._sources)
        if job is None:
            return ""
        work = Workspace(self._folder / "listing", None)
        try:
            work.create()
            job = resolve(dataclasses.replace(job, out=str(work.out)))
            return list_corpus(job, RECORD_TYPES[job.record_type](job), work).build_id
        except (ShardmillError, OSError) as error:
            self._reason = self._reason or str(error)
            return ""


def _several_generations(directory: Place, damages: list[Damage]) -> str:
    files = ", ".join(sorted({damage.file for damage in damages})[:3])
    return (
        f"{directory} has several generations, and repair works on sets of one. Damaged: {files}. "
        "Restore the files that 'shardmill verify' names from a copy, or build the set again."
    )


def _no_job(directory: Place) -> str:
    if not isinstance(load_build(directory).get("options"), dict):
        return (
            f"{directory / naming.BUILD} does not say how the set was built, and the manifest has "
            "too little; restore it from a copy"
        )
    return "no source is known; name SRC"
