"""The repair of a set: finds what is damaged, restores it, and reports what remains lost.

A file of the set with the content of a damaged one is the first source, then come the sources of
each build of the set (`build_repair`). No file is put in place unless it has the SHA-256 of the
manifest, and whole files are never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from beam_jobs.progress import OnProgress
from beam_jobs.publishing import abandon, publish_set, target_of
from beam_jobs.repair.build_repair import OTHER_BUILD, BuildRepair
from beam_jobs.repair.finished import FinishedFiles, make_room
from beam_jobs.repair.generations import newest_view, repair_generations
from beam_jobs.repair.jobs import RepairJob
from beam_jobs.repair.records import LostRecord
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.errors import file_error
from foundation.storage import Place
from shard_format import (
    Damage,
    DamageError,
    Manifest,
    ShardmillError,
    UsageError,
    load_manifest,
    naming,
    verify_set,
)
from shard_format.checksums import whole_build
from shard_format.compaction import is_moving, note_of, read_state, whole_manifest
from shard_format.dataset_card import write_card
from shard_format.expected_files import ExpectedFiles, stored_files
from shard_format.set_paths import delete_in_set
from shard_format.verification import Verified, manifest_to_verify

REPAIR_DIR = f"{naming.WORK_DIR}/repair"


class Repaired(NamedTuple):
    """The result of a repair.

    Attributes:
        manifest: Manifest of the set.
        repaired: Files that were written again, relative to the set.
        deleted: Extra files that were deleted.
        lost: Records that could not be restored; the shards that lack them are as they were.
        left: Remaining damage, and files that are not part of the set.
        reason: Reason for which no build could provide files; "" if none was needed.
    """

    manifest: Manifest
    repaired: list[str]
    deleted: list[str]
    lost: list[LostRecord]
    left: list[Damage]
    reason: str

    def names_more(self) -> bool:
        """Whether a manifest was restored, and files that it names were not looked at before."""
        restored = any(name.endswith(naming.MANIFEST) for name in self.repaired)
        return restored and not all(one.is_extra or one.is_note for one in self.left)


def repair(
    directory: Place | str,
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
        sources: Current paths of the corpus; empty if it has not moved.
        delete_extra: Deletes files that are not part of the set.
        on_progress: Called with (stage, done, total) for "verify" and "stage", in bytes, and for
            the stages of a build where one is needed; from other threads.
        on_note: Called with a message before each long step.

    Raises:
        UsageError: A source is given that does not exist.
        ShardSetError: There is no set.
        DamageError: The manifest is damaged and cannot be restored.
        InputError: The set cannot be written, or a folder of it is a symbolic link.
    """
    for source in sources:
        if "*" not in source and not storage.exists(storage.place_of(source)):
            raise UsageError(f"There is no source {source}. Check the path.")
    directory = storage.place_of(directory)
    with contextlib.suppress(DamageError):
        manifest_to_verify(directory)  # no set at all: nothing is to be written there
    workspace = Workspace(directory, None)
    try:
        with workspace.lock(on_note):
            job = _Repair(directory, sources, on_progress, on_note)
            try:
                done = job.run(delete_extra)
                if done.names_more():
                    again = job.run(delete_extra)
                    done = again._replace(deleted=[*done.deleted, *again.deleted])
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
        folder = directory / REPAIR_DIR
        self._finished = FinishedFiles(folder / "files")
        self._job = RepairJob(directory, folder, sources, self._finished, on_progress, on_note)
        self._repaired: list[str] = []

    def run(self, delete_extra: bool) -> Repaired:
        """Repairs the set."""
        wants_report = self._complete_compaction()
        manifest, damages = self._verified()
        self._take_from_set(manifest, damages)
        wrong = {one.file for one in damages if not one.is_extra}
        names = wrong - set(self._repaired) - {one.file for one in damages if one.is_note}
        parts = self._restore(manifest, names) if names else []
        for part in parts:
            self._repaired += part.repaired
        is_whole = not any(part.unrecovered for part in parts)
        if is_whole and storage.is_folder(self._directory / naming.CARD):
            make_room(self._directory / naming.CARD)
        if (naming.REPORT in wrong or wants_report) and is_whole:
            from beam_jobs.report import write_report  # loads image libraries

            make_room(self._directory / naming.REPORT)
            write_report(self._directory)
            self._repaired.append(naming.REPORT)
        elif naming.CARD in wrong and write_card(self._directory, load_manifest(self._directory)):
            self._repaired.append(naming.CARD)
        deleted = [damage.file for damage in damages if damage.is_extra] if delete_extra else []
        for name in deleted:
            delete_in_set(self._directory, name)
        left = verify_set(self._directory).damages if damages else []
        lost = [record for part in parts for record in part.lost]
        reason = "; ".join(dict.fromkeys(part.reason.strip() for part in parts if part.reason))
        return Repaired(manifest, self._repaired, deleted, lost, left, reason)

    def _complete_compaction(self) -> bool:
        """Completes a compaction whose new set is whole; any other stays as it is.

        A compaction that has not begun to replace the set, and whose own set is damaged, is
        abandoned.

        Returns:
            Whether the set had a report, which was deleted.
        """
        state = read_state(self._directory)
        if state is None:
            return False
        if not state.root_hash:
            self._job.on_note(note_of(self._directory, state))
            return False
        current = whole_manifest(self._directory)
        if current is not None and not is_moving(current) and current.root_hash != state.root_hash:
            target = target_of(self._directory)
            if damaged := verify_set(target).damages:
                self._job.on_note(
                    f"a compaction that was interrupted is given up: {target / damaged[0].file} "
                    "is damaged, and nothing of the set was replaced yet"
                )
                abandon(self._directory)
                return False
        self._job.on_note("a compaction that was interrupted is completed first")
        publish_set(self._directory, state._replace(report=False), damaged=True)
        return state.report

    def _restore(self, manifest: Manifest, names: set[str]) -> list[BuildRepair]:
        if manifest.generations:
            return repair_generations(self._job, manifest, names)
        part = BuildRepair(self._job, None)
        part.restore(manifest, names)
        return [part]

    def clean_up(self) -> None:
        """Deletes the work folder, unless it has files that the set lacks."""
        if self._finished.is_replacing:
            return  # the next repair takes them
        storage.delete_tree(self._directory / naming.WORK_DIR)

    def _verified(self) -> tuple[Manifest, list[Damage]]:
        """Verifies the set; restores a damaged manifest first.

        Returns:
            The manifest, and all other damage.

        Raises:
            DamageError: The manifest cannot be restored.
        """
        problem = ""
        try:
            verified = self._verify()
            if not any(damage.file == naming.MANIFEST for damage in verified.damages):
                return verified.manifest, verified.damages + verified.minor
        except DamageError as error:
            problem = str(error)
        manifest = newest_view(
            self._directory, self._job.work, lambda: self._first_manifest(problem)
        )
        text = manifest.to_text().encode()
        make_room(self._directory / naming.MANIFEST)
        storage.write_bytes(self._directory / naming.MANIFEST, text, durable=True)
        self._repaired.append(naming.MANIFEST)
        verified = self._verify()
        return manifest, verified.damages + verified.minor

    def _verify(self) -> Verified:
        manifest = manifest_to_verify(self._directory)
        stored = stored_files(self._directory, manifest).expected
        total = int(ExpectedFiles(manifest, stored).sizes.sum())
        done, lock = 0, threading.Lock()

        def show(size: int) -> None:
            nonlocal done
            with lock:
                done += size
            self._job.on_progress("verify", done, total)

        return verify_set(self._directory, on_bytes=show)

    def _take_from_set(self, manifest: Manifest, damages: list[Damage]) -> None:
        """Takes files that a killed repair finished, and content that has another name."""
        names = {damage.file for damage in damages if not damage.is_extra}
        expected = ExpectedFiles(manifest, stored_files(self._directory, manifest).expected)
        wanted = [one for one in expected if one.file in names]
        ready = [one for one in wanted if self._finished.has(one)]
        self._finished.replace(ready, self._directory)
        self._repaired += [one.file for one in ready]
        same = []
        # Generations have files in common, such as a tokenizer.
        sums = {one.sha256 for one in wanted}
        whole = {
            one.sha256: one.file for one in expected if one.sha256 in sums and one.file not in names
        }
        # All of them before the first is replaced: swapped files are both copied.
        for one in wanted:
            others = [each.file for each in damages if each.same_as == one.file]
            others += [whole[one.sha256]] if one.sha256 in whole else []
            places = [self._directory / name for name in others]
            if one not in ready and any(self._finished.copy(one, place) for place in places):
                same.append(one)
        self._finished.replace(same, self._directory)
        self._repaired += [one.file for one in same]

    def _first_manifest(self, problem: str) -> Manifest:
        """Returns the manifest of the first build.

        Args:
            problem: Damage of the present one.

        Raises:
            DamageError: It cannot be restored.
        """
        place, build = self._directory / naming.MANIFEST, whole_build(self._directory)
        with contextlib.suppress(ShardmillError):
            present = load_manifest(self._directory)
            text = present.to_text().encode()
            if hashlib.sha256(text).hexdigest() == build.get("manifest_sha256"):
                return present  # it was only formatted
        if not build:
            raise DamageError(
                f"{problem} {self._directory / naming.BUILD} is damaged too, or of an earlier "
                "version, so nothing says which set this was. Restore one of the two from a copy, "
                "or build the set again into another folder."
            )
        part = BuildRepair(self._job, None)
        built = part.built(None, build["root_hash"], naming.MANIFEST)
        if built is None:
            raise DamageError(
                f"{place} is damaged or is that of another set, and cannot be had: "
                f"{part.reason or OTHER_BUILD}. Restore it from a copy, or build the set again "
                "into another folder."
            )
        return built
