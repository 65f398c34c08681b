"""Verification: every byte of a shard set is compared with what was written.

The manifest has the size and SHA-256 of every file but those: itself, whose bytes follow from its
content; build.json and report.html, which have checksums of their own; the stored records, whose
checksum build.json has; croissant.json and its tables, which are compared with each other and with
the manifest. Files are read once, in parallel. Where a checksum differs, the damage gets an
address: file, byte offset, record id. Files that are not part of the set are named too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.checksums import OnBytes, file_sha256
from foundation.errors import DamageError, ShardmillError
from foundation.machine import usable_cores
from foundation.storage import Place
from shard_format import naming
from shard_format.compaction import State, note_of, read_state
from shard_format.croissant import croissant_damages
from shard_format.damaged_records import (
    Damage,
    damaged_records,
    damaged_rows,
)
from shard_format.expected_files import (
    ChosenFiles,
    Expected,
    ExpectedFiles,
    StoredFiles,
    stored_files,
)
from shard_format.generation_folders import unnamed_damages, unnamed_notes
from shard_format.index import open_index
from shard_format.index_parts import open_shard_rows
from shard_format.kept_damages import kept_damages
from shard_format.manifest import Manifest
from shard_format.manifest_file import load_manifest
from shard_format.shard_list import shard_numbers
from shard_format.tfds_metadata import tfds_files
from shard_format.unnamed_files import (
    FileSizes,
    StoredNames,
    extra_files,
    own_damages,
    own_sets,
)

_REMOTE_WORKERS = 16  # reads of an object store wait for the network
_SHOWN_RECORDS = 3  # damaged ones of a shard, in its problem


@dataclasses.dataclass(frozen=True)
class Scope:
    """How much to read; sizes, names and the manifest are always checked.

    Attributes:
        share: Least part of the bytes to read, in [0, 1]: whole files, chosen by a hash of their
            names and the seed. 1 is every file, 0 none but the manifest and build.json.
        seed: Another one chooses other files.
    """

    share: float = 1.0
    seed: int = 0


class Verified(NamedTuple):
    """The result of a verification.

    Attributes:
        manifest: Manifest of the set.
        damages: All that was found; an empty list means that nothing was.
        files_read: How many files were read.
        bytes_read: Their bytes.
        files: How many files have a known checksum.
        bytes: Their bytes.
        notes: What is no damage, but has to be said: files that cannot be checked, a compaction
            that is not at its end, each of `minor`.
        minor: Files that commands write again, or that killed commands left.
    """

    manifest: Manifest
    damages: list[Damage]
    files_read: int
    bytes_read: int
    files: int
    bytes: int
    notes: list[str]
    minor: list[Damage]


def verify(
    directory: Place | str,
    *,
    workers: int | None = None,
    on_bytes: OnBytes = lambda size: None,
) -> tuple[Manifest, list[Damage]]:
    """Checks every file of a set; see `verify_set`.

    Returns:
        The manifest, and all damage; an empty list means that the set is intact.
    """
    verified = verify_set(directory, workers=workers, on_bytes=on_bytes)
    return verified.manifest, verified.damages


def verify_set(
    directory: Place | str,
    scope: Scope | None = None,
    *,
    workers: int | None = None,
    on_bytes: OnBytes = lambda size: None,
) -> Verified:
    """Checks the files of a set against its manifest.

    Args:
        directory: The shard set.
        scope: How much to read; everything when None.
        workers: Files read in parallel; one per usable core when None, more from object stores.
        on_bytes: Called with the size of every block that was read, from several threads.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest is missing or damaged, so nothing can be checked against it.
    """
    directory = storage.place_of(directory)
    scope = scope or Scope()
    manifest = manifest_to_verify(directory)
    stored = stored_files(directory, manifest)
    expected = ExpectedFiles(manifest, stored.expected)
    chosen = ChosenFiles(expected, scope.share, scope.seed)
    check = _Check(directory, manifest, expected, on_bytes)
    if workers is None:
        remote = storage.local_path(directory) is None
        workers = max(math.ceil(usable_cores()), _REMOTE_WORKERS if remote else 1)
    # The largest first: a core that begins it last would end long after the others.
    order = np.argsort(-expected.sizes, kind="stable")
    outcomes = storage.in_parallel(
        lambda one: check.file(one, read=one.file in chosen),
        (expected[int(number)] for number in order),
        remote=True,
        at_a_time=workers,
    )
    by_number = zip(order.tolist(), outcomes, strict=True)
    unlike = {number: damage for number, damage in by_number if damage is not None}
    names = {damage.file for damage in unlike.values()}
    damages = [check.located(expected[at], unlike[at], names) for at in sorted(unlike)]
    damages += _index_damages(
        directory, manifest, lambda file: file in chosen and file not in names
    )
    is_strange = 2 * sum(at < expected.num_shards for at in unlike) > expected.num_shards
    damages += _unnamed_damages(directory, manifest, read=scope.share > 0, is_strange=is_strange)
    damages += unnamed_damages(directory, manifest)
    state = read_state(directory)
    if state is not None and state.root_hash:  # its pages are written, or deleted, at the end
        pages = (naming.REPORT, naming.CARD)
        damages = [damage for damage in damages if damage.file not in pages]
    damages += check.extra_files(stored, state, read=scope.share >= 1)
    minor = [damage for damage in damages if damage.is_note]
    notes = [*stored.notes, *(f"{damage.file} {damage.problem}" for damage in minor)]
    notes += [note_of(directory, state)] if state is not None else []
    notes += unnamed_notes(directory, manifest)
    return Verified(
        manifest,
        [damage for damage in damages if not damage.is_note],
        chosen.files,
        chosen.bytes,
        len(expected),
        int(expected.sizes.sum()),
        notes,
        minor,
    )


def _unnamed_damages(
    directory: Place, manifest: Manifest, *, read: bool, is_strange: bool
) -> Iterator[Damage]:
    """Yields damage of files without a known checksum; see `own_damages`."""
    if manifest.newest:
        file = naming.view_file(manifest.newest)
        if storage.stat(directory / file) is None:
            yield Damage(file, "is missing")
        elif storage.read_bytes(directory / file) != manifest.to_text().encode():
            yield Damage(file, f"must have the content of {naming.MANIFEST}")
    for own in own_sets(directory, manifest):
        damages = own_damages(directory, own, read=read, is_strange=is_strange)
        if read:
            folder = directory / own.folder if own.folder else directory
            damages = itertools.chain(damages, croissant_damages(folder, own.manifest))
        for damage in damages:
            yield dataclasses.replace(damage, file=naming.below(own.folder, damage.file))


def manifest_to_verify(directory: Place) -> Manifest:
    """The manifest of a set, whose bytes are those that its content gives.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest is missing from a set, or damaged.
    """
    place = directory / naming.MANIFEST
    try:
        manifest = load_manifest(directory)
    except DamageError:
        raise
    except ShardmillError:
        if _lost_its_manifest(directory):
            raise DamageError(f"{place} is missing, and the folder has the other files.") from None
        raise
    if storage.read_bytes(place) != manifest.to_text().encode():
        raise DamageError(
            f"{place} was changed: it has its root hash, but other bytes than shardmill writes."
        )
    return manifest


def _lost_its_manifest(directory: Place) -> bool:
    """Whether a folder without manifest was a whole set, and is no build in progress."""
    if storage.stat(directory / naming.MANIFEST) is not None:
        return False
    build = storage.stat(directory / naming.BUILD)
    return build is not None and not storage.is_folder(directory / naming.WORK_DIR / "plan")


class _Check:
    """The checks of the files that a manifest names.

    Args:
        directory: The set.
        manifest: Its manifest.
        expected: The files whose checksums are known.
        on_bytes: See `verify_set`.
    """

    def __init__(
        self,
        directory: Place,
        manifest: Manifest,
        expected: ExpectedFiles,
        on_bytes: OnBytes,
    ) -> None:
        self._directory = directory
        self._expected = expected
        self._manifest = manifest
        # The file of an index -> its split, and the first shard whose rows it has.
        self._indexes: dict[str, tuple[str, int]] = {}
        for split in manifest.splits:
            for part, shards in manifest.shards_by_part(split):
                self._indexes[part.file] = split, shards.start
        self._on_bytes = on_bytes
        self._actual = FileSizes(directory)

    @functools.cached_property
    def _by_digest(self) -> npt.NDArray[np.uint64]:
        """[files, 2] uint64, ascending: the first bits of a SHA-256, and the number of the file."""
        heads = np.fromiter((int(one.sha256[:16] or "0", 16) for one in self._expected), np.uint64)
        order = np.argsort(heads, kind="stable")
        return np.stack([heads[order], order.astype(np.uint64)], axis=1)

    def _named(self, size: int, sha256: str) -> str:
        """The first file that must have this content; "" if none must."""
        heads, numbers = self._by_digest.T
        head = np.uint64(int(sha256[:16], 16))
        first, last = np.searchsorted(heads, head), np.searchsorted(heads, head, side="right")
        for number in numbers[first:last].tolist():
            one = self._expected[number]
            if (one.bytes, one.sha256) == (size, sha256):
                return one.file
        return ""

    def file(self, one: Expected, *, read: bool) -> Damage | None:
        """What is wrong with a file, without the records; None if nothing is."""
        place = self._directory / one.file
        try:
            size = self._actual.get(one.file)
            if size is None:
                path = storage.local_path(place)
                other = path is not None and path.exists()
                return Damage(one.file, "is not a regular file" if other else "is missing")
            if size != one.bytes:
                problem = f"must have {one.bytes} bytes, has {size}"
                return Damage(one.file, problem, same_as=self._same_as(place, size))
            if not read:
                return None
            digest = file_sha256(place, self._on_bytes)
        except OSError as error:
            return Damage(one.file, f"cannot be read: {error.strerror}")
        if digest == one.sha256:
            return None
        same = self._named(one.bytes, digest)
        return Damage(one.file, "does not match its SHA-256", same_as=same)

    def _same_as(self, place: Place, size: int) -> str:
        if not np.any(self._expected.sizes == size):
            return ""
        return self._named(size, file_sha256(place))

    def located(self, one: Expected, damage: Damage, damaged: object) -> Damage:
        """The damage with its address in the file, as far as it can be found.

        Args:
            one: The file.
            damage: From `file`.
            damaged: The names of all damaged files.
        """
        if damage.same_as:
            return _because(damage, f"it has the content of {damage.same_as}")
        try:
            if self._actual.get(one.file) is None:
                return damage
            if one.split:
                return self._located_shard(one, damage, damaged)
            if one.file in self._indexes:
                return self._located_index(one, damage)
            return self._located_text(one, damage)
        except OSError as error:
            return _because(damage, f"cannot be read: {error.strerror}")

    def _located_shard(self, one: Expected, damage: Damage, damaged: object) -> Damage:
        index = self._manifest.index_part_of(one.split, one.number)
        rows = None
        if index not in damaged:  # type: ignore[operator]
            try:
                rows = open_shard_rows(self._directory, self._manifest, one.split, one.number)
            except ShardmillError:
                rows = None
        records = tuple(damaged_records(self._directory / one.file, rows))
        if not records:
            return _because(damage, "all its records match their checksums, but are others")
        more = len(records) - _SHOWN_RECORDS
        shown = [str(record) for record in records[:_SHOWN_RECORDS]]
        shown += [f"and {more:,} more records"] if more > 0 else []
        return dataclasses.replace(_because(damage, "; ".join(shown)), records=records)

    def _located_index(self, one: Expected, damage: Damage) -> Damage:
        (split, first), config = self._indexes[one.file], self._manifest.config
        if not self._manifest.has_shard_lists():
            return damage
        plain = config.get("balance", "none") == "none" and not config.get("pack")
        seed = config.get("seed") if plain else None
        sizes = shard_numbers(self._manifest.splits[split].shards, "bytes").tolist()
        records = tuple(damaged_rows(self._directory / one.file, sizes, seed, first))
        if not records:
            return damage
        return dataclasses.replace(_because(damage, str(records[0])), records=records)

    def _located_text(self, one: Expected, damage: Damage) -> Damage:
        manifest = self._manifest
        if not manifest.has_shard_lists():
            return damage
        right = tfds_files(manifest.name, manifest.schema, manifest.splits).get(one.file)
        if right is None or hashlib.sha256(right).hexdigest() != one.sha256:
            return damage
        data = storage.read_bytes(self._directory / one.file)
        pairs = enumerate(zip(data, right, strict=False))
        at = next((at for at, (a, b) in pairs if a != b), min(len(data), len(right)))
        return _because(damage, f"differs from byte {at} on")

    def extra_files(
        self, stored: StoredFiles, state: State | None, *, read: bool
    ) -> Iterator[Damage]:
        """Yields what is in the folders of the set and is not part of it.

        A reader by glob would take a shard for one of the set, and copies take room.

        Args:
            stored: Files in `fingerprints/`.
            state: State of a compaction that is not at its end.
            read: Whether to compare contents with those of the set.
        """
        names = StoredNames({one.file for one in stored.expected}, set(stored.told))
        others = extra_files(self._directory, self._manifest, names, state)
        for damage, size in sorted(others, key=lambda one: one[0].file):
            same = ""
            if read and size is not None and not damage.is_note:
                with contextlib.suppress(OSError):
                    same = self._same_as(self._directory / damage.file, size)
            detail = dataclasses.replace(damage, same_as=same)
            yield _because(detail, f"it has the content of {same}") if same else damage


def _because(damage: Damage, detail: str) -> Damage:
    return dataclasses.replace(damage, problem=f"{damage.problem}; {detail}")


def _index_damages(
    directory: Place, manifest: Manifest, is_whole: Callable[[str], bool]
) -> Iterator[Damage]:
    """Yields where an index, whose bytes are right, contradicts the manifest or its records."""
    for split, info in manifest.splits.items():
        if info.index and not is_whole(manifest.shards_file(split)):
            continue
        try:
            records = shard_numbers(info.shards, "records")
        except ShardmillError as error:
            yield Damage(manifest.shards_file(split), str(error))
            continue
        for part, shards in manifest.shards_by_part(split):
            if not is_whole(part.file):
                continue
            try:
                index = open_index(directory / part.file)
                counts = pc.value_counts(index["shard"])
            except (ShardmillError, pa.ArrowException) as error:
                yield Damage(part.file, str(error))
                continue
            first = info.shards[shards.start].file if shards else None
            whole = first if first is not None and is_whole(first) else None
            yield from kept_damages(directory, manifest, index, part.file, whole)
            rows_of = {item["values"]: item["counts"] for item in counts.to_pylist()}
            for shard in shards:
                rows, must = rows_of.pop(shard, 0), int(records[shard])
                if rows != must:
                    file = info.shards[shard].file
                    yield Damage(part.file, f"must have {must} rows for {file}, has {rows}")
            if rows_of:
                yield Damage(part.file, f"has rows of shard {min(rows_of)}, which it must not have")
