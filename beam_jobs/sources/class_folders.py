"""Class folders: SRC/hat/1.jpg is a record of class "hat", however deep below hat it lies.

With --split folders the split comes first: SRC/train/hat/1.jpg.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.base import Item, Source
from beam_jobs.sources.naming import (
    SPLIT_NAMES,
    is_left_out,
    prefixes,
    readable_name,
    refuse_columns,
    split_name,
)
from shard_format import InputError


class ClassFolders(Source):
    """Every file below the roots, sorted by name folder by folder.

    Folders and files whose name begins with a dot, and those that Windows and macOS leave behind,
    are left out. A file outside any class folder, or one that is no regular file, is listed as
    refused: it will be counted and shown, not lost.
    """

    def __init__(self, options: PreprocessOptions) -> None:
        super().__init__(options)
        refuse_columns(options, "class folders")

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for item, folders in walk(roots, on_ignored):
            yield self._placed(item, folders)

    def _placed(self, item: Item, folders: tuple[str, ...]) -> Item:
        """The item with what its folders say."""
        by_split, split = self.options.split == SPLIT_BY_FOLDER, None
        if by_split and folders:
            split = split_name(folders[0])
            folders = folders[1:]
        label = folders[0] if folders and not self.options.no_labels else None
        item = item._replace(label=label, split=split)
        if item.refused:
            return item
        if by_split and split is None:
            expected = ", ".join(SPLIT_NAMES)
            reason = f"no-split-folder: with --split folders it must lie in one of {expected}"
            return item._replace(refused=reason)
        if label is None and not self.options.no_labels:
            return item._replace(refused="no-class-folder: the file lies beside the class folders")
        return item


# A file without label, and the names of the folders it lies in below its root.
Found = tuple[Item, tuple[str, ...]]


def walk(roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Found]:
    """Every file below the roots, in an order that depends on names alone.

    Raises:
        InputError: A root is missing, is no folder, or two roots have the same name.
    """
    for prefix, root in folder_prefixes(roots):
        yield from walk_root(prefix, root, on_ignored)


def walk_root(prefix: str, root: Path, on_ignored: Callable[[str], None]) -> Iterator[Found]:
    """Every file below one root, whose record ids begin with the prefix."""
    status = root.stat()
    above = ((status.st_dev, status.st_ino),)
    yield from _walk(_Folder(os.fsencode(root), prefix, (), above), on_ignored)


def folder_prefixes(roots: Sequence[Path]) -> list[tuple[str, Path]]:
    """As `prefixes`, of roots that must be folders.

    Raises:
        InputError: A root is missing, is no folder, or two roots have the same name.
    """
    for root in roots:
        if root.exists() and not root.is_dir():
            raise InputError(
                f"a source of folders must be a folder, got the file {root}. "
                "Name the folder that holds the files, or say with --source what this file is."
            )
    return prefixes(roots)


class _Folder(NamedTuple):
    path: bytes
    prefix: str  # of the record ids below it
    names: tuple[str, ...]  # of itself and the folders above, below the root
    above: tuple[tuple[int, int], ...]  # device and inode of itself and all folders above


def _walk(root: _Folder, on_ignored: Callable[[str], None]) -> Iterator[Found]:
    """Depth first, by name; a stack of iterators, since folders nest deeper than Python calls."""
    stack = [_entries(root, on_ignored)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
        elif isinstance(found, _Folder):
            stack.append(_entries(found, on_ignored))
        else:
            yield found


def _entries(folder: _Folder, on_ignored: Callable[[str], None]) -> Iterator[Found | _Folder]:
    try:
        with os.scandir(folder.path) as entries:
            # Names alone: an entry keeps what `stat` says, and a folder may hold a million.
            names = sorted(entry.name for entry in entries)
    except OSError as error:
        name = folder.prefix.rstrip("/") or "."
        reason = f"unreadable: {error.strerror}"
        yield Item(name, folder.path, None, 0, 0, reason), folder.names
        return
    for raw_name in names:
        name = readable_name(raw_name)
        record_id = folder.prefix + name
        if is_left_out(raw_name):
            on_ignored(record_id)
            continue
        path = os.path.join(folder.path, raw_name)
        try:
            status = os.stat(path)
        except OSError as error:
            reason = f"{'broken-link' if os.path.islink(path) else 'unreadable'}: {error.strerror}"
            yield Item(record_id, path, None, 0, 0, reason), folder.names
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield file_item(record_id, path, status), folder.names
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in folder.above:
            reason = "link-cycle: the link leads to a folder above it"
            yield Item(record_id, path, None, 0, 0, reason), folder.names
            continue
        above = (*folder.above, identity)
        yield _Folder(path, f"{record_id}/", (*folder.names, name), above)


def file_item(record_id: str, path: bytes, status: os.stat_result) -> Item:
    """A file without label; refused if it is no regular one, which might be read without end."""
    if not stat.S_ISREG(status.st_mode):
        reason = "not-a-file: it is a device, a pipe or a socket"
        return Item(record_id, path, None, 0, 0, reason)
    return Item(record_id, path, None, status.st_size, status.st_mtime_ns)
