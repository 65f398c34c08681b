"""The files of a corpus: every file below its roots, in an order that depends on names alone."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.dataset_metadata import ShardSets, is_note
from beam_jobs.corpus.names import is_hidden, prefixes, readable_name
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, retried
from shard_format import InputError

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
        if os.path.lexists(source) or not glob.has_magic(source):
            paths.append(os.path.abspath(source))
            continue
        found = sorted(glob.glob(source, recursive=True))
        if not found:
            raise InputError(f"The pattern {source!r} matches no file. Check it.")
        paths += [os.path.abspath(path) for path in found]
    return list(dict.fromkeys(paths))


def find_files(
    roots: Sequence[Path],
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
        roots: Files and folders, absolute.
        on_ignored: Called with the id of every file that is left out on purpose.
        follow_links: Whether to follow symbolic links that lead out of their root.
        on_unreadable: "stop" or "quarantine", for folders that cannot be listed.

    Raises:
        InputError: A root is missing, two roots have the same name, or a folder cannot be listed.
    """
    sets = ShardSets(roots)
    for prefix, root in prefixes(roots):
        if not root.is_dir():
            file_id = prefix.removesuffix("/") or readable_name(os.fsencode(root.name))
            yield FoundFile(_file_item(file_id, os.fsencode(root), root.stat()), ())
            continue
        walk = _Walk(root, on_ignored, follow_links, on_unreadable)
        for found in walk.files(prefix):
            path = found.item.path
            shards = sets.around(os.path.dirname(path))
            if shards is not None:
                if path in shards:
                    yield found
            elif is_note(path):
                on_ignored(found.item.record_id)
            else:
                yield found


class _Folder(NamedTuple):
    path: bytes
    prefix: str  # of the record ids below it
    names: tuple[str, ...]  # of itself and the folders above, below the root
    above: tuple[tuple[int, int], ...]  # device and inode of itself and all folders above


class _Walk:
    """All files below one root."""

    def __init__(
        self, root: Path, on_ignored: OnIgnored, follow_links: bool, on_unreadable: str
    ) -> None:
        self._root = os.fsencode(root)
        self._real_root = os.path.realpath(self._root)
        self._on_ignored = on_ignored
        self._follow_links = follow_links
        self._on_unreadable = on_unreadable

    def files(self, prefix: str) -> Iterator[FoundFile]:
        """Depth first, by name; a stack of iterators, since folders nest deeper than calls."""
        status = os.stat(self._root)
        above = ((status.st_dev, status.st_ino),)
        stack = [self._entries(_Folder(self._root, prefix, (), above))]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
            elif isinstance(found, _Folder):
                stack.append(self._entries(found))
            else:
                yield found

    def _entries(self, folder: _Folder) -> Iterator[FoundFile | _Folder]:
        try:
            entries = retried(lambda: _names_in(folder.path), folder.path)
        except (Rejection, UnreadableError) as error:
            name = folder.prefix.rstrip("/") or "."
            item = SourceItem(name, folder.path, None, 0, 0)
            yield FoundFile(item.rejected(self._unreadable(error)), folder.names)
            return
        for raw_name, is_link in entries:
            name = readable_name(raw_name)
            record_id = folder.prefix + name
            if is_hidden(raw_name):
                self._on_ignored(record_id)
                continue
            path = os.path.join(folder.path, raw_name)
            try:
                status = self._status(path, is_link)
                identity = (status.st_dev, status.st_ino)
                if stat.S_ISDIR(status.st_mode) and identity in folder.above:
                    raise Rejection("link-cycle", "the link leads to a folder above it")
            except (Rejection, UnreadableError) as error:
                item = SourceItem(record_id, path, None, 0, 0)
                yield FoundFile(item.rejected(self._unreadable(error)), folder.names)
                continue
            if stat.S_ISDIR(status.st_mode):
                yield _Folder(
                    path, f"{record_id}/", (*folder.names, name), (*folder.above, identity)
                )
            else:
                yield FoundFile(_file_item(record_id, path, status), folder.names)

    def _status(self, path: bytes, is_link: bool) -> os.stat_result:
        """What an entry is.

        Raises:
            Rejection: It is a link that leads nowhere, or out of the root.
            UnreadableError: The file system does not say.
        """
        if not is_link:
            return retried(lambda: os.stat(path), path)
        try:
            status = os.stat(path)
        except OSError as error:
            raise Rejection("broken-link", str(error.strerror)) from None
        target = os.path.realpath(path)
        inside = target == self._real_root or target.startswith(self._real_root + b"/")
        if not inside and not self._follow_links:
            raise Rejection(
                "outside-link", "the link leads out of the source; --follow-links follows it"
            )
        return status

    def _unreadable(self, error: Rejection | UnreadableError) -> Rejection:
        """Why an entry is rejected.

        Raises:
            InputError: It is an I/O error, and the job stops at those.
        """
        if isinstance(error, Rejection):
            return error
        if self._on_unreadable == "stop":
            raise InputError(
                f"Cannot list the source: {error}. Nothing was written. Run the same command again "
                "when it can be read, or with --on-unreadable quarantine to go without it."
            ) from error
        return Rejection("unreadable", str(error.error.strerror))


def _names_in(folder: bytes) -> list[tuple[bytes, bool]]:
    """(name, whether it is a symbolic link) of every entry, sorted.

    Not the entries themselves: each keeps what `stat` says, and a folder may hold a million.
    """
    with os.scandir(folder) as entries:
        return sorted((entry.name, entry.is_symlink()) for entry in entries)


def _file_item(record_id: str, path: bytes, status: os.stat_result) -> SourceItem:
    """A file without label; rejected if it is not regular, since it might be read without end."""
    if not stat.S_ISREG(status.st_mode):
        item = SourceItem(record_id, path, None, 0, 0)
        return item.rejected(Rejection("not-a-file", "it is a device, a pipe or a socket"))
    return SourceItem(record_id, path, None, status.st_size, status.st_mtime_ns)
