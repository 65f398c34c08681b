"""Names that every source gives in the same way: record ids, labels and splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import split_column
from shard_format import InputError, UsageError

# Between the names of a record with several labels, which are sorted (ASCII's unit separator).
LABEL_SEPARATOR = "\x1f"

# What people call the three splits, by the name that a shard set gives them.
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}


# What other people call a split in a file name, beside the names above (MNIST's test files).
_IN_FILE_NAMES = SPLIT_NAMES | {"t10k": "test"}
_LEFT_BY_SYSTEMS = (b"thumbs.db", b"desktop.ini", b"__macosx")


def is_left_out(name: bytes) -> bool:
    """Whether a file or folder is hidden, or one that Windows or macOS leaves behind."""
    return name.startswith(b".") or name.lower() in _LEFT_BY_SYSTEMS


def join_labels(names: Iterable[str]) -> str:
    """The distinct names of a record with several labels, sorted, as one text.

    Raises:
        Rejection: A name holds the separator.
    """
    distinct = sorted(set(names))
    for name in distinct:
        if LABEL_SEPARATOR in name:
            raise Rejection("bad-label", f"the name {name!r} holds the character 0x1f")
    return LABEL_SEPARATOR.join(distinct)


def split_name(given: str) -> str | None:
    """The split that a folder or a value of a split column names; None if it names none."""
    return SPLIT_NAMES.get(given.strip().lower())


def split_of_file(record_id: str) -> str | None:
    """The split that a file of many records is named for; None if for none.

    That is the first folder that names one (train/0001.tar), or else the first word of the file's
    own name that does (train-00000-of-00005.parquet, t10k-images-idx3-ubyte).
    """
    *folders, name = record_id.split("/")
    for folder in folders:
        if folder.strip().lower() in SPLIT_NAMES:
            return split_name(folder)
    words = (word.lower() for word in re.split(r"[-_. ]", name))
    return next((_IN_FILE_NAMES[word] for word in words if word in _IN_FILE_NAMES), None)


def prefixes(roots: Sequence[Path]) -> list[tuple[str, Path]]:
    """The roots in an order that does not depend on the command line, with their id prefixes.

    Raises:
        InputError: A root is missing, or two roots have the same name.
    """
    for root in roots:
        if not root.exists():
            raise InputError(f"a source must exist, got no {root}. Check the path.")
    if len(roots) == 1:
        return [("", roots[0])]
    named = {f"{readable_name(root.resolve().name.encode())}/": root for root in roots}
    if len(named) < len(roots):
        raise InputError(
            "several sources must have different names, since record ids begin with them, got "
            f"{', '.join(str(root) for root in roots)}. Rename one, or name their parent."
        )
    return sorted(named.items())


def readable_name(name: bytes) -> str:
    """A file name as text: UTF-8, or else with every byte that is not as //xNN.

    No two names become the same text, for no file name holds a slash.
    """
    return name.decode("utf-8", "surrogateescape").translate(_ESCAPES)


def member_name(name: bytes) -> str:
    """The name of a member of an archive as text that is safe in a record id.

    Repeated slashes and "." are left out, as in unpacking. What would lead elsewhere is escaped
    (".." becomes //x2e//x2e), since a record id may become a path again.
    """
    if b"//" not in name and b"." not in (name[:1], name[-1:]) and b"/." not in name:
        text = readable_name(name)  # the usual case, a million times
        return f"//x2f{text[1:]}" if text.startswith("/") else text
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    text = "/".join("//x2e//x2e" if part == b".." else readable_name(part) for part in parts)
    return f"//x2f{text}" if name.startswith(b"/") else text


_ESCAPES = {0xDC00 + byte: f"//x{byte:02x}" for byte in range(0x80, 0x100)}


def refuse_columns(options: PreprocessOptions, what: str) -> None:
    """Returns if the options ask for no column, of a source that has none.

    Raises:
        UsageError: They do.
    """
    for flag, column in (
        ("--group-by", options.group_by),
        ("--split", split_column(options.split)),
    ):
        if column is not None:
            raise UsageError(
                f"{flag} must name a column, got {column!r} and {what} have none. Give a table "
                "with that column: --labels FILE."
            )
