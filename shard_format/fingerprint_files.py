"""The files in `fingerprints/`, each in one file or in parts; nobody else knows their names.

A large corpus has both in parts, which many workers write. The name of a part says how many there
are, so a set whose build.json is lost still knows whether it has them all.
"""

from __future__ import annotations

import re

from foundation import storage
from foundation.storage import Place
from shard_format import naming

# Items of a part, about: 32 MiB. There are at most 256 parts, which one worker can tell apart.
PART_ITEMS = 1 << 22
_MOST_PARTS = 256

_PART = re.compile(r"(?P<stem>.+)-\d{5,}-of-\d{5,}\.arrow")


def item_parts(items: int) -> int:
    """Number of parts of a list of items; each has an even share of the hashes."""
    return min(_MOST_PARTS, max(1, -(-items // PART_ITEMS)))


def part_file(name: str, part: int, parts: int) -> str:
    """The name of a part of a file; of the only one, that of the file."""
    stem = name.removesuffix(".arrow")
    return name if parts == 1 else f"{stem}-{part:05d}-of-{parts:05d}.arrow"


def whole_file(file: str) -> str:
    """The file that another one is a part of, or is itself, by their names."""
    match = _PART.fullmatch(file)
    return file if match is None else f"{match['stem']}.arrow"


def parts_at(place: Place) -> list[Place]:
    """The file at a place, or all its parts in their order; none if one is missing."""
    if storage.stat(place) is not None:
        return [place]
    names = [name for name in _names_in(place.parent) if whole_file(name) == place.name]
    if names != [part_file(place.name, part, len(names)) for part in range(len(names))]:
        return []
    return [place.parent / name for name in names]


def files_in(directory: Place, *kinds: str) -> list[str]:
    """The files in `fingerprints/` that are there, whether or not their parts are complete.

    Args:
        directory: A set, or a generation.
        kinds: Those that are wanted of `naming.FINGERPRINT_FILES`; all if none is given.
    """
    folder = naming.FINGERPRINTS_DIR
    files = (f"{folder}/{name}" for name in _names_in(directory / folder))
    return [file for file in files if whole_file(file) in (kinds or naming.FINGERPRINT_FILES)]


def is_fingerprints(file: str, *folders: str) -> bool:
    """Whether a name, relative to a set, is that of such a file in one of some generations."""
    return whole_file(file) in {
        naming.below(one, name) for one in folders for name in naming.FINGERPRINT_FILES
    }


def _names_in(folder: Place) -> list[str]:
    if not storage.is_folder(folder):
        return []
    return sorted(entry.name for entry in storage.list_folder(folder))
