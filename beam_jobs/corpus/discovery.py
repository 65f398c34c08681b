"""The files of a corpus: every file below its roots, in an order that depends on names alone."""

from __future__ import annotations

import bisect
import errno
import fnmatch
import glob
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.dataset_metadata import is_note, set_files
from beam_jobs.corpus.names import is_hidden, prefixes, readable_name
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, path_of, place_of, retried
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


def expand_globs(sources: Sequence[str]) -> list[str]:
    """Absolute paths of the sources, in their order and once each, with patterns expanded.

    Raises:
        InputError: A pattern matches nothing.
    """
    paths: list[str] = []
    for source in sources:
        place = storage.place_of(source)
        is_url = isinstance(place, storage.Url)
        if not glob.has_magic(source) or (not is_url and os.path.lexists(source)):
            paths.append(storage.absolute(source))
            continue
        matches = _glob_url(place) if is_url else sorted(glob.glob(source, recursive=True))
        if not matches:
            raise InputError(f"The pattern {source!r} matches no file. Check it.")
        paths += map(storage.absolute, matches)
    return list(dict.fromkeys(paths))


def _glob_url(pattern: Place) -> list[str]:
    """What matches a pattern of an object store, such as s3://bucket/2024-*/train-*.tar, sorted."""
    scheme, bucket, *names = storage.parts(pattern)
    matches = [storage.place_of(f"{scheme}//{bucket}")]
    for name in names:
        if not glob.has_magic(name):
            matches = [place / name for place in matches]
            continue
        entries = ((place, entry.name) for place in matches for entry in storage.list_folder(place))
        matches = [place / one for place, one in entries if fnmatch.fnmatchcase(one, name)]
    return sorted(str(place) for place in matches if storage.exists(place))


def find_files(
    roots: Sequence[Place],
    on_ignored: OnIgnored,
    *,
    follow_links: bool = False,
    on_unreadable: str = "stop",
) -> Iterator[FoundFile]:
    """Every file that may hold records, sorted by name folder by folder.

    Hidden files, and those that Windows and macOS leave behind, are left out; of a shard set
    everything but its shards. An entry that is not a readable regular file is given as rejected:
    it will be counted and shown, not lost. A file's id is its path below the root, or its name if
    it is the root.

    Args:
        roots: Absolute places of files and folders.
        on_ignored: Called with the id of every file that is left out on purpose.
        follow_links: Whether to follow symbolic links that lead out of their root.
        on_unreadable: "stop" or "quarantine", for folders that cannot be listed.

    Raises:
        InputError: A root is missing or inside of another, or a folder cannot be listed.
    """
    for prefix, root in prefixes(roots):
        if not storage.is_folder(root):
            file_id = prefix.removesuffix("/") or readable_name(os.fsencode(root.name))
            yield FoundFile(_file_item(file_id, path_of(root), storage.stat(root)), ())
            continue
        yield from _Walk(root, on_ignored, follow_links, on_unreadable).files(prefix)


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


class _Walk:
    """All files below one root; several folders of a bucket are listed at the same time."""

    def __init__(
        self,
        root: Place,
        on_ignored: OnIgnored,
        follow_links: bool,
        on_unreadable: str,
    ) -> None:
        self._root = path_of(root)
        self._in_bucket = not isinstance(root, Path)
        self._real_root = self._root if self._in_bucket else os.path.realpath(self._root)
        self._on_ignored = on_ignored
        self._follow_links = follow_links
        self._on_unreadable = on_unreadable

    def files(self, prefix: str) -> Iterator[FoundFile]:
        """Depth first, by name; a stack of iterators, since folders nest deeper than calls."""
        root = _Folder(self._root, prefix, (), (self._real_root,), _entries_of(self._root))
        stack = [(self._found(root), _shards_in(root, None))]
        while stack:
            entries, shards = stack[-1]
            one = next(entries, None)
            if one is None:
                stack.pop()
            elif isinstance(one, _Folder):
                stack.append((self._found(one), _shards_in(one, shards)))
            elif self._may_have_records(one.item, shards):
                yield one

    def _may_have_records(self, item: SourceItem, shards: set[bytes] | None) -> bool:
        """Whether a file is to be read; `shards` are those of the set that it is in, if any."""
        if shards is not None:
            return item.path in shards
        if is_note(item.path):
            self._on_ignored(item.record_id)
            return False
        return True

    def _found(self, folder: _Folder) -> Iterator[FoundFile | _Folder]:
        entries = folder.entries
        if not isinstance(entries, list):
            name = folder.prefix.rstrip("/") or "."
            yield self._unreadable(name, folder.path, folder, entries)
            return
        ahead = storage.in_parallel(
            _entries_of, _folders_among(entries, folder.path), remote=self._in_bucket, at_a_time=32
        )
        for packed in entries:
            raw_name, kind, is_link, size, mtime_ns = _unpacked(packed)
            name = readable_name(raw_name)
            record_id = folder.prefix + name
            if is_hidden(raw_name):
                self._on_ignored(record_id)
                continue
            path = os.path.join(folder.path, raw_name)
            try:
                target = self._target(path) if is_link else b""
                if kind == storage.UNKNOWN:
                    kind, size, mtime_ns = retried(partial(_look_again, path), path)
                if kind == storage.FOLDER:
                    above = self._above(folder, raw_name, target)
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


def _shards_in(folder: _Folder, above: set[bytes] | None) -> set[bytes] | None:
    """The shards of the set that a folder is, else of the one that it is inside of, if any."""
    entries = folder.entries
    if not isinstance(entries, list):
        return above
    at = bisect.bisect_left(entries, _MANIFEST)
    has_manifest = any(entry.startswith(_MANIFEST) for entry in entries[at : at + 1])
    shards = set_files(place_of(folder.path)) if has_manifest else None
    return above if shards is None else shards


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
