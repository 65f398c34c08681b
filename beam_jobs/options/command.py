"""The command that has the same options as a job: messages name it, so that it can be copied."""

from __future__ import annotations

import os
import shlex
from typing import Any

from beam_jobs.options.base import PreprocessOptions
from beam_jobs.options.values import DEFAULT_SPLIT
from foundation.options import declared, flag_of

_MOST_SOURCES = 8  # in a command


def command_line(options: PreprocessOptions, **changes: Any) -> str:
    """The command of `shardmill preprocess` for a job.

    What a look at SRC settles by itself is left out.

    Args:
        options: The job.
        changes: Options that are to differ, by field name; a tuple of `sources` too.
    """
    words = ["shardmill", "preprocess", options.COMMAND]
    sources = [short_path(source) for source in changes.get("sources", options.sources)]
    # Of a pattern that a shell has expanded there may be thousands.
    words += sources if len(sources) <= _MOST_SOURCES else ["SRC..."]
    words += ["--out", short_path(options.out)]
    settled = {"split": DEFAULT_SPLIT, "source": "class-folders"}
    for field in declared(options):
        value = getattr(options, field.name)
        value = None if value == settled.get(field.name, "") else value
        value = changes.get(field.name, value)
        if value is None or value == field.default:
            continue
        words.append(flag_of(field.name))
        if field.metadata["type"] is not bool:
            words.append(short_path(value) if field.metadata["form"] else str(value))
    return shlex.join(words)


def short_path(path: str) -> str:
    """A path, relative if it is below the working directory."""
    below = os.path.relpath(path) if os.path.isabs(path) else path
    return path if below.startswith(os.pardir) else below
