"""Names that every source gives in the same way: record ids and splits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from beam_jobs.option_values import split_column
from beam_jobs.options import PreprocessOptions
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


def split_name(given: str) -> str | None:
    """The split that a folder or a value of a split column names; None if it names none."""
    return SPLIT_NAMES.get(given.strip().lower())


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
