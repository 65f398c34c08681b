"""The folders of generations in a set, and those that its manifest does not name.

The manifest of a set is replaced last of all, so a folder that it does not name is that of an
append that was killed, or the manifest is older than the set. Its records may be nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from foundation import storage
from foundation.storage import Place
from shard_format import naming
from shard_format.compaction import read_state
from shard_format.damaged_records import Damage
from shard_format.manifest import Manifest

_NUMBER = re.compile(r"\d{4,}")


def generation_numbers(directory: Place) -> list[int]:
    """The numbers of all generations that have a folder, ascending."""
    place = directory / naming.GENERATIONS_DIR
    if not storage.is_folder(place):
        return []
    entries = storage.list_folder(place)
    names = [one.name for one in entries if one.kind == storage.FOLDER]
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def is_unfinished(folder: Place) -> bool:
    """Whether the build in the folder of a generation is not at its end: it may be begun again."""
    if storage.stat(folder / naming.MANIFEST) is not None:
        return False
    names = [one.name for one in storage.list_folder(folder)]
    return not names or naming.WORK_DIR in names


def unnamed_generations(directory: Place, manifest: Manifest) -> list[int]:
    """The numbers of generations that are built, and that the manifest of the set does not name."""
    if read_state(directory) is not None:
        return []  # of a compaction that is not at its end, which has their records
    return [
        number
        for number in generation_numbers(directory)
        if number > manifest.newest
        and not is_unfinished(directory / naming.generation_folder(number))
    ]


def unnamed_damages(directory: Place, manifest: Manifest) -> Iterator[Damage]:
    """Yields folders of generations that are not named, and that an append cannot publish."""
    for number in unnamed_generations(directory, manifest):
        folder = naming.generation_folder(number)
        if storage.stat(directory / folder / naming.MANIFEST) is None:
            yield Damage(
                f"{folder}/",
                f"is a generation that {naming.MANIFEST} does not name, without a manifest of its "
                f"own. Restore {naming.MANIFEST}, or {folder}/{naming.MANIFEST}, from a copy; or "
                "move the folder out of the set",
            )


def unnamed_notes(directory: Place, manifest: Manifest) -> Iterator[str]:
    """Yields what becomes of finished generations that are not named."""
    for number in unnamed_generations(directory, manifest):
        folder = naming.generation_folder(number)
        if storage.stat(directory / folder / naming.MANIFEST) is not None:
            yield (
                f"{folder} is a finished generation that {naming.MANIFEST} does not name yet, and "
                "it was not checked: the next append or compaction publishes it"
            )
