"""Paths in a set: which names stay inside it, and how its files are deleted.

A set may come from anybody. Names in its files are checked when they are read (`is_in_set`), and
what is deleted is looked at once more at that moment (`delete_in_set`).

The folder of a set may be reached through symbolic links. Below it a link counts as what it leads
to when it is read. To be replaced or deleted it counts as itself, and through a folder that is a
link nothing is written or deleted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from foundation import storage
from foundation.errors import InputError
from foundation.storage import Place
from shard_format import naming

_MOST_BYTES = 255  # of one part on any common file system
_MOST_PATH_BYTES = 1024  # of all of them, as the key of an object
_DRIVE = re.compile(r"[A-Za-z]:")
# Names that need no closer look: readers of many shards ask for every record.
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


def is_in_set(name: str) -> bool:
    """Whether a name in a file of a set is a relative path of the set, on every system.

    It has no empty, "." or ".." part, no control character or backslash, no drive, is not longer
    than file systems take, and is not in the folder of an unfinished build.
    """
    if len(name) <= _MOST_BYTES and _PLAIN.fullmatch(name):
        return True
    try:
        parts = name.encode().split(b"/")
    except UnicodeEncodeError:  # half of a surrogate pair, from JSON
        return False
    return (
        _UNSAFE.search(name) is None
        and _DRIVE.match(name) is None
        and len(b"/".join(parts)) <= _MOST_PATH_BYTES
        and all(0 < len(part) <= _MOST_BYTES for part in parts)
        and not {b".", b"..", naming.WORK_DIR.encode()} & set(parts)
    )


def delete_in_set(directory: Place, name: str) -> None:
    """Deletes a file or a folder of a set, if there is one; of a symbolic link, the link.

    Args:
        directory: The set.
        name: Relative to the set. One that ends with a slash is that of a folder: a file of this
            name stays, as it may have taken the place of the folder.

    Raises:
        InputError: The name does not lie in the set, or goes through a symbolic link.
    """
    parts = name.removesuffix("/").split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise InputError(f"{name!r} is not in {directory}, so it was not deleted.")
    path = storage.local_path(directory)
    if path is None:
        place = directory / "/".join(parts)
        storage.delete_tree(place) if name.endswith("/") else storage.delete(place)
        return
    folder = path.resolve().joinpath(*parts[:-1])
    if folder.resolve() != folder:
        raise InputError(
            f"{path / name} is reached through a symbolic link, {folder.resolve()}, so it was not "
            "deleted. Remove the link, or put the folder itself in its place."
        )
    final = folder / parts[-1]
    if final.is_dir() and not final.is_symlink():
        shutil.rmtree(final, ignore_errors=True)  # does not follow links
    elif final.is_symlink() or not name.endswith("/"):
        final.unlink(missing_ok=True)


def linked_folders(directory: Place) -> Iterator[str]:
    """Yields the folders of a set, relative to it, that are symbolic links."""
    path = storage.local_path(directory)
    if path is None:
        return
    own = [Path(name) for name in (*naming.FOLDERS, naming.WORK_DIR, naming.GENERATIONS_DIR)]
    generations = path / naming.GENERATIONS_DIR
    if not generations.is_symlink():
        for folder, names, _ in os.walk(generations):
            own += [Path(folder, name).relative_to(path) for name in names]
    yield from (str(name) for name in own if (path / name).is_symlink())


def check_no_links(directory: Place) -> None:
    """Checks that a set can be changed without changing what is elsewhere.

    Raises:
        InputError: One of its folders, or a file of an unfinished build, is a symbolic link.
    """
    linked = next(linked_folders(directory), None) or next(_linked_work(directory), None)
    if linked is not None:
        raise InputError(
            f"{directory / linked} is a symbolic link, through which nothing is written or deleted."
            " Put the folder itself in its place."
        )


def _linked_work(directory: Place) -> Iterator[str]:
    """Yields what is a symbolic link directly in the folder of unfinished builds."""
    path = storage.local_path(directory)
    work = path / naming.WORK_DIR if path is not None else None
    if work is not None and work.is_dir():
        with os.scandir(work) as entries:
            links = [entry.name for entry in entries if entry.is_symlink()]
        yield from (f"{naming.WORK_DIR}/{name}" for name in links)
