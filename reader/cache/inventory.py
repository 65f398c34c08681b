"""The copies in a cache directory, and none of the other files there."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
from pathlib import Path

from shard_format.naming import (
    GENERATIONS_DIR,
    INDEX_DIR,
    MANIFEST,
    TOKENIZERS,
    parse_shard_file,
)

PART, _PART_DIRECTORY = ".part", ".d"
_ROOT_HASH = re.compile(r"[0-9a-f]{64}")
_DECODED = re.compile(r"decoded-[A-Za-z0-9.+-]+")


@dataclasses.dataclass(frozen=True)
class Item:
    """What is, or is to be, kept as one: a file, or the directory of a decoded split.

    Attributes:
        name: Path relative to the cache directory, with "/".
        bytes: Size of all its files; of what is not there yet an upper bound.
    """

    name: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class CachedItem(Item):
    """An item that is there.

    Attributes:
        used: When a stream that reads it was last opened, in seconds since 1970.
        in_use: Whether a live process may read it.
    """

    used: float
    in_use: bool = False


def find_parts(root: Path) -> list[Path]:
    """The files of a set that are, or were, being written."""
    places = (root, root / INDEX_DIR, *root.glob("decoded-*"))
    return [part for place in places for part in place.glob(f"*{PART}")]


def find_roots(directory: Path) -> list[Path]:
    """The directories of the sets of which something is there."""
    return [
        path for path in directory.iterdir() if _ROOT_HASH.fullmatch(path.name) and path.is_dir()
    ]


def find_entries(directory: Path) -> list[CachedItem]:
    """Everything that the cache wrote and finished."""
    entries = []
    for root in find_roots(directory):
        files = [root / MANIFEST, *(root / name for name in TOKENIZERS.values())]
        files += (path for path in root.iterdir() if parse_shard_file(path.name))
        files += (root / INDEX_DIR).glob("*.arrow")
        appended = (path for path in (root / GENERATIONS_DIR).rglob("*") if path.is_file())
        files += (path for path in appended if not path.name.endswith(PART))
        for decoded in root.iterdir():
            if _DECODED.fullmatch(decoded.name):
                splits = (path.parent for path in decoded.glob(f"*/{MANIFEST}"))
                files += (split for split in splits if not is_part(split))
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                used = stamp(path).stat().st_mtime
                name = path.relative_to(directory).as_posix()
                entries.append(CachedItem(name, tree_bytes(path), used))
    return entries


def is_whole(path: Path, size: int) -> bool:
    """Whether a copy is there: a file of that name is whole, unless a failing disk has cut it."""
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def part_directory(part: Path) -> Path:
    """Where a directory is written while the file `part` is locked."""
    return part.with_name(f"{part.name}{_PART_DIRECTORY}")


def is_part(directory: Path) -> bool:
    """Whether a directory is one of `part_directory`."""
    return directory.name.endswith(f"{PART}{_PART_DIRECTORY}")


def tree_bytes(path: Path) -> int:
    """Bytes of a file, or of all files in a directory.

    Raises:
        FileNotFoundError: There is neither.
    """
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def stamp(path: Path) -> Path:
    """The file whose time of modification says when an item was last used."""
    return path / MANIFEST if path.is_dir() else path


def delete(path: Path) -> None:
    """Deletes an item."""
    if path.is_dir():
        # The manifest first: without it, what is left after a kill is no item.
        (path / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
