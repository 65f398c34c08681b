"""The files of a corpus: every file below its roots, in an order that depends on names alone."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence

from beam_jobs.corpus.names import prefixes
from beam_jobs.corpus.pieces import CorpusPiece, pack_source
from beam_jobs.corpus.walk import CorpusWalk, FoundFile, OnIgnored
from foundation import storage
from foundation.storage import Place
from shard_format import InputError


def expand_globs(sources: Sequence[str]) -> list[str]:
    """Absolute paths of the sources, in their order and once each, with patterns expanded.

    Raises:
        InputError: A pattern matches nothing.
    """
    paths: list[str] = []
    storage.commit_of.cache_clear()  # those of this job are looked up once, now
    for source in sources:
        place = storage.place_of(source)
        is_url = isinstance(place, storage.Url)
        if not glob.has_magic(source) or (not is_url and os.path.lexists(source)):
            paths.append(storage.absolute(source))
            continue
        matches = _glob_url(source) if is_url else sorted(glob.glob(source, recursive=True))
        if not matches:
            raise InputError(f"The pattern {source!r} matches no file. Check it.")
        paths += map(storage.absolute, matches)
    return list(dict.fromkeys(paths))


def _glob_url(pattern: str) -> list[str]:
    """What matches a pattern of an object store, such as s3://bucket/2024-*/train-*.tar, sorted."""
    root, names = storage.split_pattern(storage.Url(storage.absolute(pattern)))
    matches = [root]
    for name in names:
        if not glob.has_magic(name):
            matches = [place / name for place in matches]
            continue
        entries = ((place, entry.name) for place in matches for entry in _entries(place))
        matches = [place / one for place, one in entries if fnmatch.fnmatchcase(one, name)]
    return sorted(str(place) for place in matches if storage.exists(place))


def _entries(folder: Place) -> Iterator[storage.Entry]:
    """The entries of a folder; none if there is no folder, which a bucket does not say."""
    with contextlib.suppress(FileNotFoundError):
        yield from storage.list_folder(folder)


def find_files(
    roots: Sequence[Place],
    on_ignored: OnIgnored,
    *,
    follow_links: bool = False,
    on_unreadable: str = "stop",
) -> Iterator[FoundFile]:
    """Every file that may hold records, sorted by name folder by folder.

    Hidden files, and those that Windows and macOS leave behind, are left out; of a shard set
    everything but its shards. An entry that is not a readable regular file is given as rejected:
    it will be counted and shown, not lost. A file's id is its path below the root, or its name if
    it is the root.

    Args:
        roots: Absolute places of files and folders.
        on_ignored: Called with the id of every file that is left out on purpose.
        follow_links: Whether to follow symbolic links that lead out of their root.
        on_unreadable: "stop" or "quarantine", for folders that cannot be listed.

    Raises:
        InputError: A root is missing or inside of another, or a folder cannot be listed.
    """
    walk = CorpusWalk(on_ignored, follow_links=follow_links, on_unreadable=on_unreadable)
    yield from walk.files(whole_corpus(roots))


def whole_corpus(roots: Sequence[Place]) -> CorpusPiece:
    """The piece that has everything below some roots.

    Raises:
        InputError: A root is missing or inside of another.
    """
    return CorpusPiece(None, [pack_source(prefix, root) for prefix, root in prefixes(roots)])
