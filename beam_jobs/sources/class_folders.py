"""Class folders: SRC/hat/1.jpg is a record of class "hat", however deep below hat it lies."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from beam_jobs.sources.base import Item
from shard_format import InputError

_LEFT_BY_SYSTEMS = (b"thumbs.db", b"desktop.ini", b"__macosx")


def list_class_folders(roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
    """Every file below the roots, sorted by name folder by folder.

    Folders and files whose name begins with a dot, and those that Windows and macOS leave behind,
    are left out. A file outside any class folder, or one that is no regular file, is listed as
    refused: it will be counted and shown, not lost.

    Raises:
        InputError: A root is missing, is no folder, or two roots have the same name.
    """
    for prefix, root in _prefixes(roots):
        status = root.stat()
        above = ((status.st_dev, status.st_ino),)
        yield from _walk(_Folder(os.fsencode(root), prefix, None, above), on_ignored)


def _prefixes(roots: Sequence[Path]) -> list[tuple[str, Path]]:
    """The roots in an order that does not depend on the command line, with their id prefixes."""
    for root in roots:
        if not root.exists():
            raise InputError(f"a source must exist, got no folder {root}. Check the path.")
        if not root.is_dir():
            raise InputError(
                f"a source of class folders must be a folder, got the file {root}. "
                "Name the folder that holds one folder per class."
            )
    if len(roots) == 1:
        return [("", roots[0])]
    prefixes = {f"{root.resolve().name}/": root for root in roots}
    if len(prefixes) < len(roots):
        raise InputError(
            "several sources must have different folder names, since record ids begin with them, "
            f"got {', '.join(str(root) for root in roots)}. Rename one, or name their parent."
        )
    return sorted(prefixes.items())


class _Folder(NamedTuple):
    path: bytes
    prefix: str  # of the record ids below it
    label: str | None
    above: tuple[tuple[int, int], ...]  # device and inode of itself and all folders above


def _walk(root: _Folder, on_ignored: Callable[[str], None]) -> Iterator[Item]:
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


def _entries(folder: _Folder, on_ignored: Callable[[str], None]) -> Iterator[Item | _Folder]:
    try:
        with os.scandir(folder.path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        name = folder.prefix.rstrip("/") or "."
        yield Item(name, folder.path, folder.label, 0, 0, f"unreadable: {error.strerror}")
        return
    for entry in found:
        name = readable_name(entry.name)
        record_id = folder.prefix + name
        if entry.name.startswith(b".") or entry.name.lower() in _LEFT_BY_SYSTEMS:
            on_ignored(record_id)
            continue
        try:
            status = entry.stat()
        except OSError as error:
            reason = f"{'broken-link' if entry.is_symlink() else 'unreadable'}: {error.strerror}"
            yield Item(record_id, entry.path, folder.label, 0, 0, reason)
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield _file(record_id, entry.path, folder.label, status)
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in folder.above:
            reason = "link-cycle: the link leads to a folder above it"
            yield Item(record_id, entry.path, folder.label, 0, 0, reason)
            continue
        above = (*folder.above, identity)
        yield _Folder(entry.path, f"{record_id}/", folder.label or name, above)


def readable_name(name: bytes) -> str:
    """A file name as text: UTF-8, or else with every byte that is not as //xNN.

    No two names become the same text, for no file name holds a slash.
    """
    return name.decode("utf-8", "surrogateescape").translate(_ESCAPES)


_ESCAPES = {0xDC00 + byte: f"//x{byte:02x}" for byte in range(0x80, 0x100)}


def _file(record_id: str, path: bytes, label: str | None, status: os.stat_result) -> Item:
    if not stat.S_ISREG(status.st_mode):
        return Item(record_id, path, label, 0, 0, "not-a-file: it is a device, a pipe or a socket")
    refused = "" if label is not None else "no-class-folder: the file lies beside the class folders"
    return Item(record_id, path, label, status.st_size, status.st_mtime_ns, refused)
