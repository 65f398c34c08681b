"""Rows of a sidecar on their way into another order: in memory while they are few, then in a file.

A unit ends by its bytes, so one of tiny documents may have a million rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, bounds_of, run_starts, uint64
from beam_jobs.staging.sidecars import take_rows
from beam_jobs.workspace import read_batches

# A batch of a unit has some hundred rows, whose columns as they are made take three times their
# bytes. So batches are joined now and then.
_JOINED_ROWS = 2048
_HELD_ROWS = 1 << 15  # some 8 MiB per worker, as they wait and once more as they are taken


class RowSpool:
    """Takes rows as they come and gives them in any order.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
        schema: Of the rows.

    Attributes:
        count: Number of rows so far.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.count = 0
        self._path = path
        self._schema = schema
        self._arriving: list[pa.Table] = []
        self._arriving_rows = 0
        self._held: list[pa.Table] = []  # joined batches, until there is a file
        self._sizes: list[int] = []  # of joined batches
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, rows: pa.Table) -> None:
        """Adds rows behind the others."""
        self.count += len(rows)
        self._arriving.append(rows)
        self._arriving_rows += len(rows)
        if self._arriving_rows >= _JOINED_ROWS:
            self._join()

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some columns of all rows, in the order they came; no row may be added after that."""
        self._end()
        batches = self._held if self._writer is None else read_batches(self._path, names)
        empty = self._schema.empty_table()
        return pa.concat_tables([table.select(names) for table in (empty, *batches)])

    def take(self, order: IntArray) -> Iterator[pa.Table]:
        """The rows of these numbers, some thousands at a time; none may be added after that.

        Rows of any part may be anywhere, so each part reads the whole file.
        """
        self._end()
        begins = bounds_of(np.array(self._sizes, np.int64))
        for start in range(0, len(order), _HELD_ROWS):
            part = order[start : start + _HELD_ROWS]
            batches = np.searchsorted(begins, part, side="right") - 1
            yield take_rows(batches, part - begins[batches], self._batch)

    def close(self) -> None:
        """Removes the file."""
        self._end()
        self._path.unlink(missing_ok=True)

    def _join(self) -> None:
        joined = pa.concat_tables(self._arriving).combine_chunks()
        self._arriving, self._arriving_rows = [], 0
        self._sizes.append(len(joined))
        self._held.append(joined)
        if self._writer is None and self.count > _HELD_ROWS:
            self._writer = pa.ipc.new_file(str(self._path), self._schema)
        if self._writer is not None:
            for table in self._held:
                self._writer.write_table(table)
            self._held.clear()

    def _end(self) -> None:
        if self._arriving:
            self._join()
        if self._writer is not None:
            self._writer.close()

    def _batch(self, number: int) -> pa.Table:
        if self._writer is None:
            return self._held[number]
        with pa.OSFile(str(self._path)) as file:
            return pa.Table.from_batches([pa.ipc.open_file(file).get_batch(number)])


def shuffle_order(rows: RowSpool) -> IntArray:
    """[n] int64, the numbers of rows by key; the record id breaks a tie of two equal keys.

    So the order never depends on the unit. Ids are looked at only if two keys are equal.
    """
    keys = uint64(rows.columns(["key"])["key"])
    order = np.argsort(keys, kind="stable")
    if run_starts(keys[order]).all():
        return order
    table = rows.columns(["key", "record_id"])
    sort_keys = [("key", "ascending"), ("record_id", "ascending")]
    return pc.sort_indices(table, sort_keys=sort_keys).to_numpy().astype(np.int64)
