"""Files that replace the bytes of rejected records, by the ids of the records.

`shardmill quarantine export` writes the original of a record to a path made from its id, and a
replay looks there for a corrected file: both use the same function.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.source_io import path_of, place_of
from foundation import storage
from foundation.storage import Place
from shard_format import InputError

PlaceT = TypeVar("PlaceT", Path, storage.Url, Place)

# The file of a record whose path is a folder, as of a damaged a.tar next to its a.tar/1.jpg.
# No part of a record id is written so.
_OWN_FILE = "%file"
_MAX_PATH_BYTES = 2000  # Linux takes 4,096 with the folder that it is in
_MAX_NAME_BYTES = 240  # file systems take 255; exports may get a suffix while they are written

# Reasons of listing that a file can cure; a wrong place stays wrong.
_CURABLE = ("unreadable", "broken-link", "outside-link", "missing-file", "not-a-file")


class Replacement(NamedTuple):
    """A file with the bytes to use.

    Attributes:
        path: Where it is.
        size: Its bytes.
        mtime_ns: Time of its last change in nanoseconds.
    """

    path: bytes
    size: int
    mtime_ns: int


def original_path(folder: PlaceT, record_id: str) -> PlaceT:
    """Where in a folder the original of a record is; never outside of it.

    Two record ids have two paths. Parts of an id that cannot be file names, or that would lead
    elsewhere, are written with percent signs.
    """
    if len(record_id.encode()) > _MAX_PATH_BYTES:
        return folder / f"%{_digest(record_id)}"
    return functools.reduce(operator.truediv, map(_file_name, record_id.split("/")), folder)


def own_path(path: PlaceT) -> PlaceT:
    """Where the original of a record is if its `original_path` is taken by a folder."""
    return path / _OWN_FILE


def _file_name(part: str) -> str:
    name = part.replace("%", "%25").replace("\0", "%00")
    if name in ("", ".", ".."):
        return "%" + name.replace(".", "2E")
    if len(name.encode()) > _MAX_NAME_BYTES:
        return f"{name.encode()[:100].decode(errors='ignore')}%{_digest(part)}"
    return name


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def before_replacement(item: SourceItem) -> SourceItem:
    """An item as it is in the corpus; a member of an archive as it is now."""
    if not item.replacement or item.locator.container:
        return item
    status = storage.stat(place_of(item.path))
    if status is None:
        return item
    return item._replace(size=status.size, mtime_ns=status.mtime_ns, replacement=b"")


class Replacements:
    """The files of some folders, by the ids of the records that they replace.

    Args:
        folders: Hold files by `original_path`; the first that has one is taken.
        prefix: What the ids of records begin with, where those of items do not have it yet.

    Raises:
        InputError: A folder is missing.
    """

    def __init__(self, folders: Sequence[Place], prefix: str = "") -> None:
        for folder in folders:
            if not storage.is_folder(folder):
                raise InputError(
                    f"The folder of replaced files {folder} does not exist. Restore it: the set "
                    "was built with files from there."
                )
        self._folders = folders
        self._prefix = prefix
        self._matched = False

    def __bool__(self) -> bool:
        return bool(self._folders)

    def applied(self, item: SourceItem) -> SourceItem:
        """The item, with the file that replaces its bytes if there is one."""
        if not item.reason or item.reason in _CURABLE:
            for folder in self._folders:
                replacement = _found(original_path(folder, self._prefix + item.record_id))
                if replacement is not None:
                    self._matched = True
                    return item._replace(
                        size=replacement.size,
                        mtime_ns=replacement.mtime_ns,
                        reason="",
                        detail="",
                        replacement=replacement.path,
                    )
        return item

    def below(self, file_id: str) -> dict[str, Replacement]:
        """The files for records of one file, by their number or offset in it."""
        files: dict[str, Replacement] = {}
        for folder in reversed(self._folders):
            path = original_path(folder, self._prefix + file_id)
            try:
                names = [entry.name for entry in storage.list_folder(path)]
            except OSError:
                continue  # most files have none, and no folder here
            for name in names:
                one = _found(path / name) if name.isdecimal() else None
                if one is not None:
                    files[name] = one
                    self._matched = True
        return dict(sorted(files.items()))

    def check_matched(self) -> None:
        """Checks that there was a file for some record.

        Raises:
            InputError: There was none.
        """
        if self._folders and not self._matched:
            raise InputError(
                "No file in the folder of replaced files has the path of a record id: "
                f"{', '.join(map(str, self._folders))}. 'shardmill quarantine export' writes such "
                "a folder."
            )


def _found(path: PlaceT) -> Replacement | None:
    for place in (path, own_path(path)):
        try:
            status = storage.stat(place)
        except OSError:
            return None
        if status is not None:
            return Replacement(path_of(place), status.size, status.mtime_ns)
    return None
