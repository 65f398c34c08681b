"""Which source a corpus needs, by looking at it; and globs."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar, cast

from beam_jobs.options import ImageOptions, PreprocessOptions, TextOptions
from beam_jobs.sources.beside import describes, set_files
from beam_jobs.sources.content import OTHER, PICTURE, kind_of
from beam_jobs.sources.document_look import resolve_documents
from beam_jobs.sources.naming import is_left_out
from shard_format import InputError

Options = TypeVar("Options", bound=PreprocessOptions)

_CLASS_FOLDERS = "class-folders"
# What is looked at of a source, so that a million files are listed once and not twice.
_MAX_FOLDERS = 64
_MAX_ENTRIES = 256  # of one folder
_MAX_FILES = 64  # of one folder, opened to see what they hold


def resolve_sources(options: Options) -> Options:
    """The options with globs expanded, and with the source that was meant by "auto".

    Raises:
        InputError: A pattern matches nothing, or what lies there is read in different ways.
    """
    paths = [path for source in options.sources for path in _expand(source)]
    options = dataclasses.replace(options, sources=tuple(dict.fromkeys(paths)))
    if isinstance(options, TextOptions):
        return cast(Options, resolve_documents(options))
    if not isinstance(options, ImageOptions) or options.source != "auto":
        return options
    return dataclasses.replace(options, source=_detect(options))


def _expand(source: str) -> list[str]:
    if os.path.lexists(source) or not glob.has_magic(source):
        return [os.path.abspath(source)]
    found = sorted(glob.glob(source, recursive=True))
    if not found:
        raise InputError(
            f"a source must exist, got the pattern {source!r} that matches nothing. Check it."
        )
    return [os.path.abspath(path) for path in found]


def _detect(options: ImageOptions) -> str:
    """The source for what is found in a bounded look."""
    if options.labels is not None:
        return "table"
    found: Counter[str] = Counter()
    for source in options.sources:
        found.update(_kinds(os.fsencode(source)))
    kinds = sorted(kind for kind in found if kind != OTHER)
    if not kinds or kinds == [PICTURE]:
        return _CLASS_FOLDERS  # which says what is wrong, if there are no pictures either
    if len(kinds) == 1:
        return kinds[0]
    counts = ", ".join(f"{found[kind]} {kind}" for kind in kinds)
    choices = ", ".join(_CLASS_FOLDERS if kind == PICTURE else kind for kind in kinds)
    raise InputError(
        f"a source must hold files of one kind, got {counts} files among the first in "
        f"{', '.join(options.sources)}. Say how to read it with --source ({choices}), or name "
        "the files."
    )


def _kinds(source: bytes) -> Iterator[str]:
    """What some of the files of a source hold."""
    if os.path.isfile(source):
        yield kind_of(source)
        return
    folders = deque([source])
    for _ in range(_MAX_FOLDERS):
        if not folders:
            return
        folder = folders.popleft()
        if _is_shard_set(folder):
            yield "tfrecord"
            continue
        files = 0
        for entry in _entries(folder):
            # Not the methods of the entry: they raise for links in a circle.
            if os.path.isdir(entry.path):
                folders.append(entry.path)
            elif files < _MAX_FILES and os.path.isfile(entry.path) and not describes(entry.path):
                files += 1
                yield kind_of(entry.path)


def _is_shard_set(folder: bytes) -> bool:
    return set_files(Path(os.fsdecode(folder))) is not None


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    """Some entries of a folder by name, hidden ones left out; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            shown = (entry for entry in entries if not is_left_out(entry.name))
            seen = list(itertools.islice(shown, _MAX_ENTRIES))
    except OSError:
        return []
    return sorted(seen, key=lambda entry: entry.name)
