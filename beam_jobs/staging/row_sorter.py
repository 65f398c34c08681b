"""Rows in the order of some columns: sorted in memory while they are few, else in a file.

A unit of a packed file ends by its bytes, so one of tiny documents may have a million rows, and a
corpus may have more duplicates than fit in memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

# A batch of a unit has some hundred rows, whose columns as they are made take three times their
# bytes. So batches are joined now and then.
_JOINED_ROWS = 2048
_HELD_BYTES = 8 << 20  # 8 MiB of a worker: some 30,000 rows of texts
_RUN_BATCHES = 64  # of a run; one of every run is in memory while they are merged

# Values of the columns that rows are sorted by. Code points have the order of their UTF-8, in which
# Arrow sorts.
_Place = tuple[Any, ...]


class RowSorter:
    """Takes rows as they come and gives them in order.

    What does not fit in memory goes to a file, in sorted runs of some MiB. Samples of all runs cut
    the order into ranges, and a range is read from every run and sorted.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
        schema: The columns.
        by: Names of the columns to sort by, without nulls; no two rows are equal in all of them.

    Attributes:
        count: Number of rows so far.
    """

    def __init__(self, path: Path, schema: pa.Schema, by: Sequence[str]) -> None:
        self.count = 0
        self._path = path
        self._schema = schema
        self._by = list(by)
        self._arriving: list[pa.Table] = []
        self._arriving_rows = 0
        self._held: list[pa.Table] = []  # joined
        self._held_bytes = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._runs: list[int] = []  # number of batches of each
        self._samples: list[_Place] = []  # first row of each batch

    def append(self, rows: pa.Table) -> None:
        """Adds rows."""
        self.count += len(rows)
        self._arriving.append(rows)
        self._arriving_rows += len(rows)
        if self._arriving_rows >= _JOINED_ROWS:
            self._join()
        if self._held_bytes >= _HELD_BYTES:
            self._write_run()

    def in_order(self) -> Iterator[pa.Table]:
        """Yields all rows in order, some MiB at a time; none may be added after that."""
        self._join()
        if self._writer is None:
            if self.count:
                yield self._sorted(self._held)
            return
        self._write_run()
        self._writer.close()
        with pa.OSFile(str(self._path)) as file:  # not mapped: what was read would stay
            reader = pa.ipc.open_file(file)
            batches = iter(range(reader.num_record_batches))
            runs = [
                _Run(reader, self._by, [next(batches) for _ in range(size)], [])
                for size in self._runs
            ]
            for end in [*sorted(self._samples)[_RUN_BATCHES::_RUN_BATCHES], None]:
                pieces = [piece for run in runs for piece in run.until(end)]
                if pieces:
                    yield self._sorted(pieces)

    def close(self) -> None:
        """Removes the file."""
        if self._writer is not None:
            self._writer.close()
        self._path.unlink(missing_ok=True)

    def _join(self) -> None:
        arriving, self._arriving, self._arriving_rows = self._arriving, [], 0
        if arriving:
            joined = pa.concat_tables(arriving).combine_chunks()
            self._held.append(joined)
            self._held_bytes += joined.nbytes

    def _write_run(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if not held:
            return
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._path), self._schema)
        table = self._sorted(held)
        size = -(-len(table) // _RUN_BATCHES)
        self._writer.write_table(table, max_chunksize=size)
        starts = range(0, len(table), size)
        self._runs.append(len(starts))
        self._samples += [_place(table, self._by, row) for row in starts]

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        table = pa.concat_tables(tables).combine_chunks()
        keys = [(name, "ascending") for name in self._by]
        return table.take(pc.sort_indices(table.select(self._by), sort_keys=keys))


class _Run(NamedTuple):
    """A sorted run, which is read forwards with one batch of it in memory.

    Attributes:
        reader: The file.
        by: Names of the columns that it is sorted by.
        batches: Numbers of the batches that were not read yet.
        rest: What is left of the batch that was read last, if any.
    """

    reader: pa.ipc.RecordBatchFileReader
    by: list[str]
    batches: list[int]
    rest: list[pa.Table]

    def until(self, end: _Place | None) -> Iterator[pa.Table]:
        """Yields the next rows, up to a place that is not included; None for all."""
        while self.rest or self.batches:
            if not self.rest:
                batch = self.reader.get_batch(self.batches.pop(0))
                self.rest.append(pa.Table.from_batches([batch]))
            table = self.rest.pop()
            rows = len(table)
            if end is not None:
                rows = bisect.bisect_left(range(rows), end, key=partial(_place, table, self.by))
            if rows:
                yield table.slice(0, rows)
            if rows < len(table):
                self.rest.append(table.slice(rows))
                return


def _place(table: pa.Table, by: Sequence[str], row: int) -> _Place:
    return tuple(table[name][row].as_py() for name in by)
