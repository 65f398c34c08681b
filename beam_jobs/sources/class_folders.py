"""Class folders: SRC/hat/1.jpg is a record of class "hat", however deep below hat it lies."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

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
        yield from _walk(
            os.fsencode(root), prefix, None, on_ignored, ((status.st_dev, status.st_ino),)
        )


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


def _walk(
    folder: bytes,
    prefix: str,
    label: str | None,
    on_ignored: Callable[[str], None],
    above: tuple[tuple[int, int], ...],
) -> Iterator[Item]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        name = prefix.rstrip("/") or os.fsdecode(folder)
        yield Item(name, folder, label, 0, 0, f"unreadable: {error.strerror}")
        return
    for entry in found:
        name = entry.name.decode("utf-8", "backslashreplace")
        if entry.name.startswith(b".") or entry.name.lower() in _LEFT_BY_SYSTEMS:
            on_ignored(prefix + name)
            continue
        try:
            status = entry.stat()
        except OSError as error:
            reason = f"{'broken-link' if entry.is_symlink() else 'unreadable'}: {error.strerror}"
            yield Item(prefix + name, entry.path, label, 0, 0, reason)
            continue
        if stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in above:
                reason = "link-cycle: the link leads to a folder above it"
                yield Item(prefix + name, entry.path, label, 0, 0, reason)
                continue
            below = (*above, identity)
            yield from _walk(entry.path, f"{prefix}{name}/", label or name, on_ignored, below)
        else:
            yield _file(prefix + name, entry.path, label, status)


def _file(record_id: str, path: bytes, label: str | None, status: os.stat_result) -> Item:
    if not stat.S_ISREG(status.st_mode):
        return Item(record_id, path, label, 0, 0, "not-a-file: it is a device, a pipe or a socket")
    refused = "" if label is not None else "no-class-folder: the file lies beside the class folders"
    return Item(record_id, path, label, status.st_size, status.st_mtime_ns, refused)
