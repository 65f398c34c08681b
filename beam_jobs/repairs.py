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

from beam_jobs.sources import Item
from shard_format import InputError

_MAX_NAME_BYTES = 240  # file systems take 255; exports may get a suffix while they are written

# What a listing refuses for the sake of a file that can be given; a wrong place stays wrong.
_REPAIRABLE = ("unreadable", "broken-link", "missing-file", "not-a-file")


def original_path(folder: Path, record_id: str) -> Path:
    """Where in a folder the original of a record lies; never outside of it.

    Two record ids have two paths. Parts of an id that no file can be called, or that would lead
    elsewhere, are written with percent signs.
    """
    return folder.joinpath(*(_file_name(part) for part in record_id.split("/")))


def _file_name(part: str) -> str:
    name = part.replace("%", "%25").replace("\0", "%00")
    if name in ("", ".", ".."):
        return "%" + name.replace(".", "2E")
    if len(name.encode()) > _MAX_NAME_BYTES:
        digest = hashlib.blake2b(part.encode(), digest_size=8).hexdigest()
        return f"{name.encode()[:100].decode(errors='ignore')}%{digest}"
    return name


def with_repaired(items: Iterator[Item], folders: Sequence[Path]) -> Iterator[Item]:
    """The items, each with the file that replaces its bytes if a folder has one.

    Args:
        items: As listed.
        folders: Hold files by `original_path`; the first that has one is taken.

    Raises:
        InputError: A folder is missing.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(
                f"a folder of repaired files must exist, got no folder {folder}. Put it back: the "
                "set was built with files from there."
            )
    for item in items:
        if not item.refused or item.refused.partition(":")[0] in _REPAIRABLE:
            for folder in folders:
                found = _found(original_path(folder, item.record_id))
                if found is not None:
                    path, size, changed = found
                    item = item._replace(size=size, mtime_ns=changed, refused="", repaired=path)
                    break
        yield item


def _found(path: Path) -> tuple[bytes, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return os.fsencode(path), status.st_size, status.st_mtime_ns
