"""What a source is: a deterministic listing of the records of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Item(NamedTuple):
    """One record of the corpus, not read yet.

    Attributes:
        record_id: The path relative to the source root (behind the root's name if there are
            several); the same wherever the corpus lies.
        path: Where to read it, as the file system spells it.
        label: The class name, or None.
        size: Bytes.
        mtime_ns: Time of last change in nanoseconds; part of the unit's content identity.
        refused: Why the record cannot be used, as "reason: detail", when the listing alone tells;
            "" otherwise.
    """

    record_id: str
    path: bytes
    label: str | None
    size: int
    mtime_ns: int
    refused: str


# Gives every record in an order that depends on names alone. The second argument is called with
# the path of whatever is left out on purpose (hidden files).
Source = Callable[[Sequence[Path], Callable[[str], None]], Iterator[Item]]
