"""Mended originals by the ids of the records that they belong to.

`shardmill quarantine export` writes the original of a record to a path made from its id, and a
replay looks there for what became of it: the way there is the same function.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shard_format import InputError

if TYPE_CHECKING:
    from beam_jobs.sources import Item

# The file of a record whose path is a folder, as of a damaged a.tar beside its a.tar/1.jpg.
# No part of a record id is written so.
_OWN_FILE = "%file"
_MAX_PATH_BYTES = 2000  # Linux takes 4,096 with the folder that it is in
_MAX_NAME_BYTES = 240  # file systems take 255; exports may get a suffix while they are written

# What a listing refuses for the sake of a file that can be given; a wrong place stays wrong.
_REPAIRABLE = ("unreadable", "broken-link", "missing-file", "not-a-file")


def original_path(folder: Path, record_id: str) -> Path:
    """Where in a folder the original of a record lies; never outside of it.

    Two record ids have two paths. Parts of an id that no file can be called, or that would lead
    elsewhere, are written with percent signs.
    """
    if len(record_id.encode()) > _MAX_PATH_BYTES:
        return folder / f"%{_digest(record_id)}"
    return folder.joinpath(*(_file_name(part) for part in record_id.split("/")))


def own_path(path: Path) -> Path:
    """Where the original of a record lies if its `original_path` is taken by a folder."""
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


class MendedFiles:
    """The files of some folders by the ids of the records that they replace.

    Args:
        folders: Hold files by `original_path`; the first that has one is taken.

    Raises:
        InputError: A folder is missing.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise InputError(
                    f"a folder of repaired files must exist, got no folder {folder}. Put it back: "
                    "the set was built with files from there."
                )
        self._folders = folders
        self._matched = False

    def in_place_of(self, item: Item) -> Item:
        """The item, with the file that replaces its bytes if there is one."""
        if not item.refused or item.refused.partition(":")[0] in _REPAIRABLE:
            for folder in self._folders:
                found = _found(original_path(folder, item.record_id))
                if found is not None:
                    path, size, changed = found
                    self._matched = True
                    return item._replace(size=size, mtime_ns=changed, refused="", repaired=path)
        return item

    def below(self, file_id: str) -> dict[str, tuple[bytes, int, int]]:
        """(path, bytes, time of change) of the files for records of one file, by their place."""
        found: dict[str, tuple[bytes, int, int]] = {}
        for folder in reversed(self._folders):
            path = original_path(folder, file_id)
            try:
                names = sorted(os.listdir(path))
            except OSError:
                continue  # most files have none, and no folder here
            for name in names:
                one = _found(path / name) if name.isdecimal() else None
                if one is not None:
                    found[name] = one
                    self._matched = True
        return dict(sorted(found.items()))

    def check_matched(self) -> None:
        """Returns if there was a file for some record.

        Raises:
            InputError: There was none.
        """
        if not self._matched:
            raise InputError(
                "a folder of repaired files must hold one whose path is a record id, got none in "
                f"{', '.join(map(str, self._folders))}. 'shardmill quarantine export' writes such "
                "a folder."
            )


def _found(path: Path) -> tuple[bytes, int, int] | None:
    for place in (path, own_path(path)):
        try:
            status = os.stat(place)
        except OSError:
            return None
        if stat.S_ISREG(status.st_mode):
            return os.fsencode(place), status.st_size, status.st_mtime_ns
    return None
