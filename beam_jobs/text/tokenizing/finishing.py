"""Staged documents on their way into a shard: Staged -> StagedText -> an ending -> Finished.

The ending says what a document becomes: tokens, or a part of a packed sequence.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.record_types.base import Finished, Finisher, Staged
from shard_format import decode_example, finish_example


class StagedText(NamedTuple):
    """A staged document, read.

    Attributes:
        row: Its row in the table of the shard.
        text: What it says.
        values: Its other staged features, by name.
        late: The encoded features that are known only now.
    """

    row: int
    text: str
    values: Mapping[str, Any]
    late: bytes


class Ending(abc.ABC):
    """What documents become; an instance writes one shard."""

    @abc.abstractmethod
    def write(self, table: pa.Table, documents: Iterator[StagedText]) -> Iterator[Finished]:
        """The examples, in order; `table` is that of the shard."""

    def tally(self) -> pa.Table | None:
        """See Finisher."""
        return None


class TextFinisher(Finisher):
    """Reads the documents, and hands them to an ending."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending

    def finish(self, table: pa.Table, staged: Iterator[Staged]) -> Iterator[Finished]:
        """See Finisher."""
        return self._ending.write(table, map(_read, staged))

    def tally(self) -> pa.Table | None:
        """See Finisher."""
        return self._ending.tally()


def staged_text(entries: bytes) -> tuple[str, dict[str, Any]]:
    """The text and the other features of a staged record."""
    values: dict[str, Any] = dict(decode_example(finish_example(entries)))
    (text,) = values.pop("text")
    return text.decode(), values


def _read(staged: Staged) -> StagedText:
    text, values = staged_text(staged.entries)
    return StagedText(staged.row, text, values, staged.late)
