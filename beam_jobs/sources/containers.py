"""The files of a source whose every file holds many records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import SPLIT_BY_FOLDER
from beam_jobs.sources.base import Item
from beam_jobs.sources.class_folders import file_item, walk_root
from beam_jobs.sources.naming import SPLIT_NAMES, prefixes, readable_name, split_of_file


def find_files(roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
    """Every file that the roots are or hold, in an order that depends on names alone.

    A file's id is its path below the root, or its name if it is the root. What cannot be read is
    given as refused, as in class folders.

    Raises:
        InputError: A root is missing, or two roots have the same name.
    """
    for prefix, root in prefixes(roots):
        if root.is_dir():
            yield from (item for item, _ in walk_root(prefix, root, on_ignored))
            continue
        file_id = prefix.removesuffix("/") or readable_name(os.fsencode(root.name))
        yield file_item(file_id, os.fsencode(root), root.stat())


def split_by_folder(options: PreprocessOptions, file_id: str) -> tuple[str | None, str]:
    """(split, why refused or "") of the records of a file, where --split folders asks for it."""
    if options.split != SPLIT_BY_FOLDER:
        return None, ""
    split = split_of_file(file_id)
    if split is None:
        expected = ", ".join(SPLIT_NAMES)
        return None, (
            f"no-split-folder: with --split folders a file must lie in, or be named for, one of "
            f"{expected}"
        )
    return split, ""
