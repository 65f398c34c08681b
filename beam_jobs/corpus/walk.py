"""The walk through a corpus, folder by folder, which can stop and hand on what is left."""

from __future__ import annotations

import bisect
import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.dataset_metadata import is_note, set_files
from beam_jobs.corpus.names import is_hidden, readable_name
from beam_jobs.corpus.pieces import CorpusPiece, PieceFolder, unpack_source
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, place_of, retried
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, naming

_PACKED = struct.Struct("<B?qq")  # kind, is_link, size, mtime_ns
_MANIFEST = naming.MANIFEST.encode() + b"\0"  # how the packed entry of a manifest begins

OnIgnored = Callable[[str], None]


class FoundFile(NamedTuple):
    """A file, and the names of the folders that it is in, below its root."""

    item: SourceItem
    folders: tuple[str, ...]


def weigh_alike(item: SourceItem) -> int:
    """The weight of a file where all weigh the same."""
    return 1


class CorpusWalk:
    """A walk through a piece of a corpus, which can stop and hand on what is left.

    Args:
        on_ignored: See `find_files`.
        weigh: The weight of a file: what it costs to list it.
        follow_links: See `find_files`.
        on_unreadable: See `find_files`.
    """

    def __init__(
        self,
        on_ignored: OnIgnored,
        weigh: Callable[[SourceItem], int] = weigh_alike,
        *,
        follow_links: bool = False,
        on_unreadable: str = "stop",
    ) -> None:
        self._options = (on_ignored, follow_links, on_unreadable)
        self._weigh = weigh
        self._weight = 0
        self._sources: Sequence[bytes] = ()
        self._begun = 0  # number of sources that were begun
        self._walk: _Walk | None = None

    def files(self, piece: CorpusPiece, most: int | None = None) -> Iterator[FoundFile]:
        """The files of a piece; see `find_files`.

        Args:
            piece: What to walk.
            most: Weight of the files after which the walk stops; None for all.
        """
        for file in self._all(piece):
            self._weight += self._weigh(file.item) if most is not None else 0
            yield file
            if most is not None and self._weight >= most:
                return

    def _all(self, piece: CorpusPiece) -> Iterator[FoundFile]:
        if piece.folder is not None:
            self._walk = _Walk(piece.folder.root, *self._options)
            level = _WalkLevel.of_piece(piece, piece.folder)
            yield from self._walk.files(level, lambda: self._weight)
            return
        self._sources = piece.entries
        for entry in piece.entries:
            self._begun += 1
            prefix, path = unpack_source(entry)
            root = place_of(path)
            if not storage.is_folder(root):
                file_id = prefix.removesuffix("/") or readable_name(os.fsencode(root.name))
                yield FoundFile(_file_item(file_id, path, storage.stat(root)), ())
                continue
            self._walk = _Walk(path, *self._options)
            yield from self._walk.files(self._walk.whole(prefix), lambda: self._weight)

    def rest(self, least: int, runs: int) -> Iterator[tuple[CorpusPiece, int]]:
        """What a stopped walk has left in the order of the listing, each piece with its weight.

        Folders that were not walked are estimated by those before them.

        Args:
            least: Weight of a piece, about, but of the last one of a folder.
            runs: Most pieces of one folder.
        """
        for level in self._walk.left() if self._walk is not None else ():
            per_folder = max(1, (self._weight - level.weight_before) // max(1, level.folders))
            within, left = level.as_piece(), level.left
            weights = [self._weight_of(entry, within.path, per_folder) for entry in left]
            yield from CorpusPiece(within, left).divided(weights, max(least, sum(weights) // runs))
        sources = CorpusPiece(None, self._sources[self._begun :])
        per_source = max(1, self._weight // max(1, self._begun))
        weights = [per_source] * len(sources.entries)
        yield from sources.divided(weights, max(least, sum(weights) // runs))

    def _weight_of(self, entry: bytes, folder: bytes, per_folder: int) -> int:
        name, kind, _, size, mtime_ns = _unpacked(entry)
        if kind == storage.FOLDER:
            return per_folder
        path = os.path.join(folder, name)
        return self._weigh(SourceItem(readable_name(name), path, None, size, mtime_ns))


# The packed entries of a folder, or why it cannot be listed.
_Entries = list[bytes] | Rejection | UnreadableError


class _Folder(NamedTuple):
    """A folder that is walked.

    Attributes:
        path: The folder, as its storage spells it.
        prefix: What the record ids below it begin with.
        names: Names of itself and of the folders above, below the root.
        above: Itself and all folders above, without symbolic links.
        entries: What is in it.
    """

    path: bytes
    prefix: str
    names: tuple[str, ...]
    above: tuple[bytes, ...]
    entries: _Entries


class _WalkLevel:
    """A folder in the stack of a walk.

    Args:
        root: The source that it is in.
        folder: The folder.
        shard_set: The folder of the shard set that it is in; b"" for none.
        shards: The shards of that; None for none.
        weight_before: Weight of all files before it.

    Attributes:
        folder: The folder.
        shard_set: The folder of the shard set that it is in; b"" for none.
        shards: The shards of that; None for none.
        begun: Number of entries that were begun.
        folders: Number of folders among them.
        weight_before: Weight of all files before it.
    """

    def __init__(
        self,
        root: bytes,
        folder: _Folder,
        shard_set: bytes,
        shards: set[bytes] | None,
        weight_before: int = 0,
    ) -> None:
        self._root = root
        self.folder = folder
        self.shard_set = shard_set
        self.shards = shards
        self.begun = self.folders = 0
        self.weight_before = weight_before

    @classmethod
    def of_piece(cls, piece: CorpusPiece, within: PieceFolder) -> _WalkLevel:
        """The outermost level of a walk through a piece of a folder."""
        folder = _Folder(*within[1:-1], list(piece.entries))
        # The manifest may be in another piece.
        shards = set_files(place_of(within.shard_set)) if within.shard_set else None
        return cls(within.root, folder, within.shard_set, shards)

    def within(self, folder: _Folder, weight_before: int) -> _WalkLevel:
        """The level of a folder in this one."""
        own = _shards_in(folder)
        shards = (self.shard_set, self.shards) if own is None else (folder.path, own)
        return _WalkLevel(self._root, folder, *shards, weight_before)

    @property
    def left(self) -> list[bytes]:
        """The entries that were not begun."""
        entries = self.folder.entries
        return entries[self.begun :] if isinstance(entries, list) else []

    def as_piece(self) -> PieceFolder:
        """The folder, for another worker."""
        return PieceFolder(self._root, *self.folder[:-1], self.shard_set)


class _Walk:
    """The files below one root; several folders of a bucket are listed at the same time."""

    def __init__(
        self,
        root: bytes,
        on_ignored: OnIgnored,
        follow_links: bool,
        on_unreadable: str,
    ) -> None:
        self._root = root
        self._in_bucket = not isinstance(place_of(root), Path)
        self._real_root = root if self._in_bucket else os.path.realpath(root)
        self._on_ignored = on_ignored
        self._follow_links = follow_links
        self._on_unreadable = on_unreadable
        self._stack: list[tuple[_WalkLevel, Iterator[FoundFile | _Folder]]] = []

    def whole(self, prefix: str) -> _WalkLevel:
        """The root, as the outermost level of a walk."""
        entries = _entries_of(self._root)
        folder = _Folder(self._root, prefix, (), (self._real_root,), entries)
        shards = _shards_in(folder)
        return _WalkLevel(self._root, folder, b"" if shards is None else self._root, shards)

    def files(self, outermost: _WalkLevel, weight: Callable[[], int]) -> Iterator[FoundFile]:
        """Depth first, by name; a stack of iterators, since folders nest deeper than calls.

        Args:
            outermost: Where to begin.
            weight: Gives the weight of all files so far.
        """
        outermost.weight_before = weight()
        stack = self._stack
        stack.append((outermost, self._found(outermost)))
        while stack:
            level, entries = stack[-1]
            one = next(entries, None)
            if one is None:
                stack.pop()
            elif isinstance(one, _Folder):
                inner = level.within(one, weight())
                stack.append((inner, self._found(inner)))
            elif self._may_have_records(one.item, level.shards):
                yield one

    def left(self) -> Iterator[_WalkLevel]:
        """The levels that have entries which were not begun, the innermost one first."""
        return (level for level, _ in reversed(self._stack) if level.left)

    def _may_have_records(self, item: SourceItem, shards: set[bytes] | None) -> bool:
        """Whether a file is to be read; `shards` are those of the set that it is in, if any."""
        if shards is not None:
            return item.path in shards
        if is_note(item.path):
            self._on_ignored(item.record_id)
            return False
        return True

    def _found(self, level: _WalkLevel) -> Iterator[FoundFile | _Folder]:
        folder = level.folder
        entries = folder.entries
        if not isinstance(entries, list):
            name = folder.prefix.rstrip("/") or "."
            yield self._unreadable(name, folder.path, folder, entries)
            return
        ahead = storage.in_parallel(
            _entries_of, _folders_among(entries, folder.path), remote=self._in_bucket, at_a_time=32
        )
        below = os.path.join(folder.path, b"")
        for level.begun, packed in enumerate(entries, start=1):
            raw_name, kind, is_link, size, mtime_ns = _unpacked(packed)
            name = readable_name(raw_name)
            record_id = folder.prefix + name
            if is_hidden(raw_name):
                self._on_ignored(record_id)
                continue
            path = below + raw_name
            try:
                target = self._target(path) if is_link else b""
                if kind == storage.UNKNOWN:
                    kind, size, mtime_ns = retried(partial(_look_again, path), path)
                if kind == storage.FOLDER:
                    above = self._above(folder, raw_name, target)
                    level.folders += 1
                    inside = next(ahead) if self._in_bucket else _entries_of(path)
                    yield _Folder(path, f"{record_id}/", (*folder.names, name), above, inside)
                    continue
            except (Rejection, UnreadableError) as error:
                yield self._unreadable(record_id, path, folder, error)
                continue
            status = storage.Stat(size, mtime_ns) if kind == storage.FILE else None
            yield FoundFile(_file_item(record_id, path, status), folder.names)

    def _above(self, folder: _Folder, raw_name: bytes, target: bytes) -> tuple[bytes, ...]:
        """A folder in another and all above; `target` is where it is if it is a symbolic link.

        Raises:
            Rejection: It is one of the folders above.
        """
        real = target or os.path.join(folder.above[-1], raw_name)
        if real in folder.above:
            raise Rejection("link-cycle", "the link leads to a folder above it")
        return (*folder.above, real)

    def _target(self, link: bytes) -> bytes:
        """Where a symbolic link leads to.

        Raises:
            Rejection: It leads nowhere, or out of the root.
        """
        try:
            os.stat(link)
        except OSError as error:
            raise Rejection("broken-link", str(error.strerror)) from None
        target = os.path.realpath(link)
        inside = target == self._real_root or target.startswith(self._real_root + b"/")
        if not inside and not self._follow_links:
            raise Rejection(
                "outside-link", "the link leads out of the source; --follow-links follows it"
            )
        return target

    def _unreadable(
        self, record_id: str, path: bytes, folder: _Folder, error: Rejection | UnreadableError
    ) -> FoundFile:
        """A file or folder as rejected.

        Raises:
            InputError: It is an I/O error, and the job stops at those.
        """
        if isinstance(error, UnreadableError):
            if self._on_unreadable == "stop":
                raise InputError(
                    f"Cannot list the source: {error}. Nothing was written. Run the same command "
                    "again when it can be read, or with --on-unreadable quarantine to go without "
                    "it."
                ) from error
            error = Rejection("unreadable", str(error.error.strerror))
        return FoundFile(SourceItem(record_id, path, None, 0, 0).rejected(error), folder.names)


def _shards_in(folder: _Folder) -> set[bytes] | None:
    """The shards of the set that a folder is; None if it is none."""
    entries = folder.entries
    if not isinstance(entries, list):
        return None
    at = bisect.bisect_left(entries, _MANIFEST)
    has_manifest = any(entry.startswith(_MANIFEST) for entry in entries[at : at + 1])
    return set_files(place_of(folder.path)) if has_manifest else None


def _entries_of(folder: bytes) -> _Entries:
    """Every entry of a folder, by name.

    Packed, since a folder may hold a million: the name, a zero byte, which sorts before all that a
    name can have, and the rest.
    """
    try:
        return retried(lambda: _packed_entries(place_of(folder)), folder)
    except (Rejection, UnreadableError) as error:
        return error


def _packed_entries(folder: Place) -> list[bytes]:
    packed: list[bytes] = []
    if isinstance(folder, storage.Url):
        # Page by page, which takes less memory, while no folder is among the files.
        for name, stat in storage.list_tree(folder):
            if "/" in name:
                break
            packed.append(_packed(storage.Entry(name, storage.FILE, stat)))
        else:
            return sorted(packed)
    return sorted(map(_packed, storage.list_folder(folder)))


def _packed(entry: storage.Entry) -> bytes:
    name, kind, stat, is_link = entry
    return os.fsencode(name) + b"\0" + _PACKED.pack(kind, is_link, *stat)


def _unpacked(packed: bytes) -> tuple[bytes, int, bool, int, int]:
    """(name, kind, is_link, size, mtime_ns) of an entry."""
    name = packed[: -_PACKED.size - 1]
    kind, is_link, size, mtime_ns = _PACKED.unpack_from(packed, len(name) + 1)
    return name, kind, is_link, size, mtime_ns


def _folders_among(entries: list[bytes], path: bytes) -> Iterator[bytes]:
    """Selects the folders to walk from the entries of a folder."""
    for name, kind, *_ in map(_unpacked, entries):
        if kind == storage.FOLDER and not is_hidden(name):
            yield os.path.join(path, name)


def _look_again(path: bytes) -> tuple[int, int, int]:
    """(kind, size, mtime_ns) of a file or folder that was listed and could not be looked at."""
    place = place_of(path)
    if storage.is_folder(place):
        return storage.FOLDER, 0, 0
    status = storage.stat(place)
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(path))
    return storage.FILE, *status


def _file_item(record_id: str, path: bytes, status: storage.Stat | None) -> SourceItem:
    """A file without label; rejected if it is not regular, since it might be read without end."""
    if status is None:
        item = SourceItem(record_id, path, None, 0, 0)
        return item.rejected(Rejection("not-a-file", "it is a device, a pipe or a socket"))
    return SourceItem(record_id, path, None, status.size, status.mtime_ns)
