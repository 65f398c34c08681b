"""Staged documents on their way into a shard.

    Staged -> StagedText -> any number of edits -> an ending: Finished

An edit is a function on the documents of a shard. It may change their text, or leave some out; it
must not change their order. The ending says what a document becomes: text, tokens, or a part of a
packed sequence.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.record_types.base import Finished, Finisher, Staged
from shard_format import Feature, decode_example, encode_features, finish_example


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


# (table of the shard, its documents) -> those documents, edited
Edit = Callable[[pa.Table, Iterator[StagedText]], Iterator[StagedText]]


class Ending(abc.ABC):
    """What documents become; an instance writes one shard."""

    @abc.abstractmethod
    def write(self, table: pa.Table, documents: Iterator[StagedText]) -> Iterator[Finished]:
        """The examples, in order; `table` is that of the shard."""

    def tally(self) -> pa.Table | None:
        """See Finisher."""
        return None


class TextEnding(Ending):
    """Documents are stored as text.

    Args:
        features: Of an example, those that are late left out.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self._features = features

    def write(self, table: pa.Table, documents: Iterator[StagedText]) -> Iterator[Finished]:
        """See Ending."""
        for one in documents:
            entries = encode_features(self._features, {**one.values, "text": one.text})
            yield Finished(finish_example(entries + one.late), one.row, {})


class TextFinisher(Finisher):
    """Edits, one behind the other, and an ending."""

    def __init__(self, edits: Sequence[Edit], ending: Ending) -> None:
        self._edits = edits
        self._ending = ending

    def finish(self, table: pa.Table, staged: Iterator[Staged]) -> Iterator[Finished]:
        """See Finisher."""
        documents: Iterator[StagedText] = map(_read, staged)
        for edit in self._edits:
            documents = edit(table, documents)
        return self._ending.write(table, documents)

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
