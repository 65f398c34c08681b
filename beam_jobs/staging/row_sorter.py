"""Rows of a unit by shuffle key: sorted in memory while they are few, else in a file.

A unit of a packed file ends by its bytes, so one of tiny documents may have a million rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import uint64

# A batch of a unit has some hundred rows, whose columns as they are made take three times their
# bytes. So batches are joined now and then.
_JOINED_ROWS = 2048
_HELD_BYTES = 8 << 20  # 8 MiB of a worker: some 30,000 rows of texts
# Keys are hashes, so equal ranges of them have about as many rows. 64 of them give 8 MiB or less,
# and so are read one at a time, for units whose rows have half a GiB.
_RANGE_BITS = 6

# The record id breaks the tie of two equal keys, so the order never depends on the unit.
_ORDER = [("key", "ascending"), ("record_id", "ascending")]


class RowSorter:
    """Takes rows as they come and gives them by key and record id.

    What does not fit in memory goes to a file, in runs of some MiB. A run has a batch for every
    range of keys, and a range is read from every run.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
        schema: Of the rows; it has "key", uint64, and "record_id".

    Attributes:
        count: Number of rows so far.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.count = 0
        self._path = path
        self._schema = schema
        self._arriving: list[pa.Table] = []
        self._arriving_rows = 0
        self._held: list[pa.Table] = []  # joined
        self._held_bytes = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

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
        """All rows in order, some MiB at a time; none may be added after that."""
        self._join()
        if self._writer is None:
            if self.count:
                yield _sorted(self._held)
            return
        self._write_run()
        self._writer.close()
        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_file(file)
            ranges, runs = 1 << _RANGE_BITS, reader.num_record_batches >> _RANGE_BITS
            step = max(1, ranges // runs)
            for start in range(0, ranges, step):
                numbers = range(start, min(start + step, ranges))
                batches = [
                    reader.get_batch(run * ranges + number)
                    for run in range(runs)
                    for number in numbers
                ]
                if any(map(len, batches)):
                    yield _sorted([pa.Table.from_batches(batches)])

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
        (batch,) = pa.concat_tables(held).combine_chunks().to_batches()
        ranges = uint64(batch["key"]) >> np.uint64(64 - _RANGE_BITS)
        order = np.argsort(ranges, kind="stable")
        batch = batch.take(pa.array(order))
        edges = np.searchsorted(ranges[order], np.arange((1 << _RANGE_BITS) + 1))
        for start, end in itertools.pairwise(edges.tolist()):
            self._writer.write_batch(batch.slice(start, end - start))


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables).combine_chunks()
    return table.take(pc.sort_indices(table.select(["key", "record_id"]), sort_keys=_ORDER))
