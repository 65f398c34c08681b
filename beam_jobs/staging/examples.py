"""Staged records to the examples of a shard: StagedRecord -> ExampleBuilder -> BuiltExample."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from shard_format import finish_example


class StagedRecord(NamedTuple):
    """A staged record on its way into a shard.

    Attributes:
        row: Its row in the table of the shard.
        entries: The encoded features that were known when it was staged (`encode_features`).
        late: The encoded features that are known only now: the labels, or b"".
    """

    row: int
    entries: bytes
    late: bytes


class BuiltExample(NamedTuple):
    """An example of a shard.

    Attributes:
        example: The serialized tf.train.Example.
        row: Row of the shard's table that has its key, id, label and statistics for the index.
        columns: Index columns that differ from that row, by name.
    """

    example: bytes
    row: int
    columns: Mapping[str, Any]


class ExampleBuilder(abc.ABC):
    """Turns the staged records of one shard, in order, into its examples."""

    @property
    def joins_records(self) -> bool:
        """Whether an example may have several records.

        `build` is then called once, with the table of the whole shard, else for some rows at a
        time.
        """
        return False

    @abc.abstractmethod
    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        """The examples in order; their `row` never decreases.

        Args:
            table: Sidecar rows in final order, with the other columns of the shard's recipe.
            staged: The same records with their payload, read on demand.
        """

    def counters(self) -> pa.Table | None:
        """What was counted (see `beam_jobs.counters`); valid after the last example."""
        return None


class OnePerRecord(ExampleBuilder):
    """Every record becomes one example with the features that were staged."""

    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        """See ExampleBuilder."""
        for record in staged:
            yield BuiltExample(finish_example(record.entries + record.late), record.row, {})
