"""A bounded look at a corpus: at some files of a folder, and some members of an archive."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator

from beam_jobs.corpus.containers.base import ArchiveReport, Member, container
from beam_jobs.corpus.dataset_metadata import is_note, set_files
from beam_jobs.corpus.names import is_hidden, is_hidden_member
from beam_jobs.corpus.record import Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, path_of, place_of
from foundation import storage
from foundation.storage import Place

MAX_FILES = 64  # of a folder, opened to see what they hold
MAX_MEMBERS = 64  # of one archive
MAX_ENTRIES = 4096  # of a root, or of a folder that may have classes
_MAX_FILES_OF_LEVEL = 128  # of all folders at one depth, since each is a request in a bucket
_MAX_COMPRESSED_MEMBERS = 8  # since to pass one means to decompress it
_MAX_FOLDERS = 64  # looked into for the kind of a corpus
_MAX_FOLDER_ENTRIES = 256  # of one folder, so that a million files are listed once and not twice
# Files that people put next to class folders, which do not mean that there are none.
_DESCRIBING = re.compile(
    r"(readme|licen[cs]e|copying|notice|changelog|changes|citation|authors|contributing)([._-].*)?",
    re.IGNORECASE,
)


def describes_others(name: str) -> bool:
    """Whether a file only describes others, by its name: README.md, LICENSE."""
    return _DESCRIBING.fullmatch(name.rpartition("/")[2]) is not None


def some_entries(folder: Place, most: int = MAX_ENTRIES) -> list[storage.Entry]:
    """Some entries of a folder by name, hidden ones left out; none if it cannot be read."""
    try:
        entries = storage.list_folder(folder)
        shown = (entry for entry in entries if not is_hidden(os.fsencode(entry.name)))
        return sorted(itertools.islice(shown, most), key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []


def some_folders(folder: Place, most: int = MAX_ENTRIES) -> list[str]:
    """The names of the folders among some entries of a folder."""
    return [entry.name for entry in some_entries(folder, most) if entry.kind == storage.FOLDER]


def some_files(source: Place) -> Iterator[bytes]:
    """The paths of some of the files of a source that may hold records."""
    if storage.stat(source) is not None:
        yield path_of(source)
        return
    looked, level = 0, [path_of(source)]
    while level and looked < _MAX_FOLDERS:
        level = level[: _MAX_FOLDERS - looked]
        looked += len(level)
        inside = list(
            storage.in_parallel(
                _files_and_folders, level, remote=storage.local_path(source) is None
            )
        )
        most = max(1, min(MAX_FILES, _MAX_FILES_OF_LEVEL // len(level)))
        for files, _ in inside:
            yield from files[:most]
        level = [folder for _, folders in inside for folder in folders]


def _files_and_folders(path: bytes) -> tuple[list[bytes], list[bytes]]:
    """Some files of a folder that may hold records, and the folders in it."""
    folder = place_of(path)
    shards = set_files(folder)
    if shards is not None:
        return sorted(shards)[:MAX_FILES], []
    entries = some_entries(folder, _MAX_FOLDER_ENTRIES)
    named = {
        kind: [path_of(folder / one.name) for one in entries if one.kind == kind]
        for kind in (storage.FILE, storage.FOLDER)
    }
    files = (file for file in named[storage.FILE] if not is_note(file))
    return list(itertools.islice(files, MAX_FILES)), named[storage.FOLDER]


def some_members(
    file: SourceItem, container_of: Callable[[SourceItem], str], most: int = MAX_MEMBERS
) -> list[Member] | None:
    """The usable ones of the first members of an archive; None if a file is no archive.

    Args:
        file: The file; what cannot be read of it is left out, since listing says why.
        container_of: Finds the key of CONTAINERS that it is.
        most: Number of members to look at; fewer of an archive that is compressed as a whole.
    """
    usable: list[Member] = []
    with contextlib.suppress(Rejection, UnreadableError):
        name = container_of(file)
        if not name:
            return None
        members = container(name).members(file, ArchiveReport())
        for number, member in enumerate(itertools.islice(members, most), start=1):
            if not member.reason and not is_hidden_member(member.name):
                usable.append(member)
            if member.locator.codec and number >= _MAX_COMPRESSED_MEMBERS:
                break
    return usable
