"""Staged records to the examples of a shard: StagedRecord -> ExampleBuilder -> BuiltExample."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs import bounds
from beam_jobs.columns import IntArray
from shard_format import finish_columns, finish_example


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


class StagedBlock(NamedTuple):
    """Some staged records on their way into a shard, in order.

    Attributes:
        row: The row of the first in the table of the shard; the others follow.
        entries: [n] large_binary, of each as in StagedRecord.
        late: Late features of each, as in StagedRecord.
    """

    row: int
    entries: pa.LargeBinaryArray
    late: list[bytes]


class BuiltBlock(NamedTuple):
    """Some examples of a shard, in order.

    Attributes:
        examples: [n] large_binary, the serialized tf.train.Examples.
        rows: [n] int64, as in BuiltExample.
        columns: [n] each, as in BuiltExample.
    """

    examples: pa.LargeBinaryArray
    rows: IntArray
    columns: Mapping[str, Sequence[Any]]


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

    def build_blocks(self, table: pa.Table, blocks: Iterator[StagedBlock]) -> Iterator[BuiltBlock]:
        """As `build`, many examples at a time."""
        staged = (
            StagedRecord(block.row + number, entries, late)
            for block in blocks
            for number, (entries, late) in enumerate(
                zip(block.entries.to_pylist(), block.late, strict=True)
            )
        )
        waiting, size = list[BuiltExample](), 0
        for built in self.build(table, staged):
            waiting.append(built)
            size += len(built.example)
            if size >= bounds.EXAMPLE_BYTES:
                yield _block_of(waiting)
                waiting, size = [], 0
        if waiting:
            yield _block_of(waiting)

    def counters(self) -> pa.Table | None:
        """What was counted (see `beam_jobs.counters`); valid after the last example."""
        return None


class OnePerRecord(ExampleBuilder):
    """Every record becomes one example with the features that were staged."""

    @override
    def build(self, table: pa.Table, staged: Iterator[StagedRecord]) -> Iterator[BuiltExample]:
        for record in staged:
            yield BuiltExample(finish_example(record.entries + record.late), record.row, {})

    def build_blocks(self, table: pa.Table, blocks: Iterator[StagedBlock]) -> Iterator[BuiltBlock]:
        """Builds examples without a step of Python for each record."""
        for row, entries, late in blocks:
            rows = np.arange(row, row + len(entries), dtype=np.int64)
            examples = finish_columns(entries, pa.array(late, pa.large_binary()))
            yield BuiltBlock(examples, rows, {})


def _block_of(built: Sequence[BuiltExample]) -> BuiltBlock:
    names = built[0].columns
    return BuiltBlock(
        pa.array([one.example for one in built], pa.large_binary()),
        np.array([one.row for one in built], np.int64),
        {name: [one.columns[name] for one in built] for name in names},
    )
