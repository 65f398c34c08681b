"""Mended originals in place of those that were refused.

`shardmill quarantine export` writes the original of a record to a path made from its id, and a
replay looks there for what became of it: the way there is the same function.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from beam_jobs.refusal import Refusal
from beam_jobs.sources import Item, Raw, ReadRecord
from beam_jobs.sources.base import read_file
from shard_format import InputError

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


def with_repaired(items: Iterator[Item], folders: Sequence[Path]) -> Iterator[Item]:
    """The items, each with the file that replaces its bytes if a folder has one.

    Args:
        items: As listed.
        folders: Hold files by `original_path`; the first that has one is taken.

    Raises:
        InputError: A folder is missing, or there is no file for any record.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"a folder of repaired files must exist, got no folder {folder}. Put it back: the "
                "set was built with files from there."
            )
    matched = False
    for item in items:
        if not item.refused or item.refused.partition(":")[0] in _REPAIRABLE:
            for folder in folders:
                found = _found(original_path(folder, item.record_id))
                if found is not None:
                    path, size, changed = found
                    item = item._replace(size=size, mtime_ns=changed, refused="", repaired=path)
                    matched = True
                    break
        yield item
    if not matched:
        raise InputError(
            "a folder of repaired files must hold one whose path is a record id, got none in "
            f"{', '.join(map(str, folders))}. 'shardmill quarantine export' writes such a folder."
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


def read_repaired(item: Item, read: ReadRecord) -> tuple[Raw, bytes]:
    """What the source says of a record, and the bytes of the file that replaces its own.

    Args:
        item: With a file that replaces its bytes.
        read: Reads the record where it was.

    Raises:
        Refusal: That file is what was refused: it was exported and left as it was.
        OSError: It cannot be read.
    """
    data = read_file(item.repaired, item.size)
    raw = Raw(b"", item.label, item.group, item.split)
    if item.locator:  # inside an archive or a table, which may tell its label
        try:
            raw = read(item)
        except OSError:
            pass  # what is damaged is not needed
        except Refusal as refusal:
            # Bytes that fail their checksum may well decode, and are no better for that.
            if refusal.data == data:
                raise
    return raw, data
