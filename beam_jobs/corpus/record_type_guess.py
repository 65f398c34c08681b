"""Which record type a corpus looks like, for a command in which it was left out."""

from __future__ import annotations

import glob
import itertools
import os
import shlex
from collections import Counter
from collections.abc import Iterator

from beam_jobs.corpus.record import SourceItem
from beam_jobs.corpus.sampling import describes_others, some_files, some_members
from beam_jobs.corpus.sniffing import IMAGE, container_of, image_kind, is_image_name, text_kind
from beam_jobs.options import OPTIONS
from beam_jobs.options.formats import FORMATS
from foundation import storage
from foundation.wording import counted
from shard_format import UsageError

_MAX_FILES = 64  # looked at
_MAX_MEMBERS = 8  # of an archive, which may be compressed
_NO_FILES = {"record"}  # which a program reads
_PLURALS = {"image": "images", "text": "text"}


def check_is_no_source(arguments: list[str]) -> None:
    """Checks that the first argument of `shardmill preprocess` is not a corpus.

    Raises:
        UsageError: It is; the message has the command that was meant.
    """
    first = arguments[0]
    paths = [first] if os.path.exists(first) else sorted(glob.glob(first, recursive=True))
    if not paths:
        return
    counts, files = Counter[str](), 0
    for path in itertools.islice(_files(paths), _MAX_FILES):
        files += 1
        counts[_record_type(path)] += 1
    del counts[""]
    commands = {name: _command(name, arguments) for name in OPTIONS if name not in _NO_FILES}
    if len(counts) == 1 or (counts and len({*counts.values()}) > 1):
        name, number = counts.most_common(1)[0]
        raise UsageError(
            f"{first} looks like {_PLURALS.get(name, name)} ({number} of "
            f"{counted(files, 'file')} looked at). Run:\n  {commands[name]}"
        )
    raise UsageError(
        f"The record type is missing, and {first} does not show it ({counted(files, 'file')} "
        "looked at). Run one of:\n  " + "\n  ".join(commands.values())
    )


def _files(paths: list[str]) -> Iterator[bytes]:
    for path in paths:
        for file in some_files(storage.place_of(path)):
            if not describes_others(os.fsdecode(file)):
                yield file


def _command(name: str, arguments: list[str]) -> str:
    has_out = any(one == "--out" or one.startswith("--out=") for one in arguments)
    words = ["shardmill", "preprocess", OPTIONS[name].COMMAND, *arguments]
    return shlex.join(words if has_out else [*words, "--out", "SET"])


def _record_type(path: bytes) -> str:
    """The record type that a file is of; "" if it may be of any, or of none."""
    kind = image_kind(path)
    if kind != IMAGE:
        item = SourceItem("", path, None, 0, 0)
        members = some_members(item, lambda file: container_of(file.path), _MAX_MEMBERS)
        if members is not None:
            if any(is_image_name(member.name) for member in members):
                return "image"
            return "text" if members else ""
    kind = kind or text_kind(path)
    kinds = FORMATS[kind].kinds if kind in FORMATS else ()
    return kinds[0] if len(kinds) == 1 else ""
