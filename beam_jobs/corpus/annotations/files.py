"""Files below a folder of annotations."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.corpus.discovery import find_files
from beam_jobs.corpus.source_io import place_of
from foundation import storage
from foundation.storage import Place
from shard_format import InputError


def files_below(folder: Place, ending: str) -> Iterator[tuple[Place, str]]:
    """(place, path below the folder without the ending) of each file with an ending, in order.

    Raises:
        InputError: The folder cannot be listed, or has no such file.
    """
    count = 0
    for file in find_files([folder], lambda name: None, follow_links=True):
        if not file.item.reason and file.item.record_id.lower().endswith(ending):
            count += 1
            yield place_of(file.item.path), file.item.record_id[: -len(ending)]
    if not count:
        raise InputError(
            f"--annotations {folder} has no {ending} file. Check the path, or name the form with "
            "--annotations-format."
        )


def is_folder(place: Place) -> bool:
    """Whether annotations are in a folder.

    Raises:
        InputError: There is nothing at that place.
    """
    if storage.is_folder(place):
        return True
    if storage.stat(place) is None:
        raise InputError(f"--annotations {place}: no such file or folder. Check the path.")
    return False
