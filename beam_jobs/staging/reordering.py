"""Rows and frames on their way into another order: in memory while they are few, then in files.

RowSorter    rows in the order of some columns
Partitions   rows by partition, each of which fits in memory
StoredRows   rows of a file by their number
RowFile      the same, of rows that are added
Spool        frames in any order

A unit of a packed file ends by its bytes, so one of tiny documents may have a million rows, and a
corpus may have more duplicates than fit in memory. Rows of a whole corpus are partitioned once, so
that the time of planning grows with the corpus, and not with its square as with a pass for every
partition.
"""

from __future__ import annotations

import bisect
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, bytes_of

_RUN_BATCHES = 32  # of a run; one of every run is in memory while they are merged

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
        if self._arriving_rows >= bounds.JOINED_ROWS:
            self._join()
        if self._held_bytes >= bounds.SORTED_BYTES:
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
            joined = _apart(pa.concat_tables(arriving).combine_chunks())
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


def _apart(table: pa.Table) -> pa.Table:
    """A copy of rows outside of the heap.

    They stay while kernels take and free blocks of some MiB: each of them that is behind such rows
    in the heap leaves a gap in which no later one fits.
    """
    copied = []
    for batch in table.to_batches():
        data = batch.serialize()
        region = mmap.mmap(-1, data.size)
        region[:] = memoryview(data)
        copied.append(pa.ipc.read_record_batch(pa.py_buffer(region), table.schema))
    return pa.Table.from_batches(copied, table.schema)


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
            rows = len(table) if end is None else _rows_before(table, self.by, end)
            if rows:
                yield table.slice(0, rows)
            if rows < len(table):
                self.rest.append(table.slice(rows))
                return


def _rows_before(table: pa.Table, by: Sequence[str], end: _Place) -> int:
    """How many rows of a sorted table are before a place."""
    low, high, first = 0, len(table), table[by[0]]
    if pa.types.is_integer(first.type):  # the most often, and rarely equal
        keys = first.to_numpy()
        key = keys.dtype.type(end[0])  # else both are compared as floats
        low, high = (int(np.searchsorted(keys, key, side)) for side in ("left", "right"))
    return bisect.bisect_left(range(len(table)), end, low, high, key=partial(_place, table, by))


def _place(table: pa.Table, by: Sequence[str], row: int) -> _Place:
    return tuple(table[name][row].as_py() for name in by)


_WRITE_BYTES = 1 << 20  # 1 MiB a system call


class Spool:
    """Takes frames as they come and gives them in any order.

    What does not fit in memory goes through a file, that the page cache holds, and that is read and
    not mapped: pages of a map would count as memory of the job.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0
        self._held: list[pa.LargeBinaryArray] = []
        self._file: BinaryIO | None = None

    def append(self, frames: pa.LargeBinaryArray) -> IntArray:
        """Adds [n] large_binary frames behind the others; [n] int64, where each begins."""
        begins = self._bytes + bounds_of(np.asarray(pc.binary_length(frames), np.int64))
        self._bytes = int(begins[-1])
        if self._file is not None:
            self._file.write(bytes_of(frames))
            return begins[:-1]
        self._held.append(frames)
        if self._bytes > bounds.SPOOLED_BYTES:
            self._file = self._path.open("w+b", buffering=_WRITE_BYTES)
            self._file.writelines(map(bytes_of, self._held))
            self._held.clear()
        return begins[:-1]

    def take(self, begins: IntArray, sizes: IntArray) -> Iterator[bytes | memoryview]:
        """The frames of these sizes that begin there; none may be added after that."""
        places = zip(begins.tolist(), sizes.tolist(), strict=True)
        if self._file is None:
            held = memoryview(b"".join(map(bytes_of, self._held)))
            yield from (held[begin : begin + size] for begin, size in places)
            return
        self._file.flush()
        for begin, size in places:
            yield os.pread(self._file.fileno(), size, begin)

    def close(self) -> None:
        """Removes the file."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)


_MOST_PARTITIONS = 256  # each with an open file for a moment, and with a look at every unit

StructuredArray = npt.NDArray[np.void]


def rows_of_partition(records: int) -> int:
    """Rows of a partition of a corpus: the same for up to 8 million records."""
    even = -(-records // _MOST_PARTITIONS)
    return min(bounds.MOST_PARTITION_ROWS, max(bounds.LEAST_PARTITION_ROWS, even))


class Partitions:
    """Takes rows, and gives them back by partition.

    Args:
        folder: A path of its own on the local disk; made if it is needed, and removed at the end.
        dtype: Structured type of a row.
        number: How many partitions there are.

    Attributes:
        dtype: Structured type of a row.
    """

    def __init__(self, folder: Path, dtype: np.dtype[Any], number: int) -> None:
        self.dtype = dtype
        self._folder = folder
        self._number = number
        # Of rows with an image in them fewer wait.
        self._waiting = max(1, min(bounds.WAITING_ROWS, bounds.WAITING_BYTES // dtype.itemsize))
        self._held: list[tuple[IntArray, StructuredArray]] = []
        self._held_rows = 0

    def add(self, partition: IntArray, rows: StructuredArray) -> None:
        """Adds rows.

        Args:
            partition: [n], in [0, number).
            rows: [n].
        """
        for start in range(0, len(rows), self._waiting):  # a unit may have a million
            part = slice(start, start + self._waiting)
            self._held.append((partition[part], rows[part]))
            self._held_rows += len(rows[part])
            if self._number > 1 and self._held_rows >= self._waiting:
                self._flush()

    def take(self) -> Iterator[StructuredArray]:
        """The rows of every partition, in the order in which they were added."""
        if self._number == 1:
            yield self._joined()[1]
            return
        self._flush()
        for number in range(self._number):
            path = self._path(number)
            yield np.fromfile(path, self.dtype) if path.exists() else np.empty(0, self.dtype)
            path.unlink(missing_ok=True)

    def take_by(self, most: int) -> Iterator[Iterator[StructuredArray]]:
        """As `take`, of each partition at most so many rows at a time."""
        self._flush()
        for number in range(self._number):
            path = self._path(number)
            yield self._pieces(path, most)
            path.unlink(missing_ok=True)

    def _pieces(self, path: Path, most: int) -> Iterator[StructuredArray]:
        if path.exists():
            with path.open("rb") as file:
                while len(rows := np.fromfile(file, self.dtype, most)):
                    yield rows

    def _flush(self) -> None:
        """Appends what is held to the files."""
        if not self._held_rows:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        partition, rows = self._joined()
        order = np.argsort(partition, kind="stable")
        numbers, begins = np.unique(partition[order], return_index=True)
        for number, part in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            with self._path(number).open("ab") as file:
                rows[part].tofile(file)

    def _joined(self) -> tuple[IntArray, StructuredArray]:
        held, self._held, self._held_rows = self._held, [], 0
        nothing = (np.empty(0, np.int64), np.empty(0, self.dtype))
        partitions, rows = zip(nothing, *held, strict=True)
        return np.concatenate(partitions), np.concatenate(rows)

    def _path(self, number: int) -> Path:
        return self._folder / str(number)

    def close(self) -> None:
        """Removes the files."""
        shutil.rmtree(self._folder, ignore_errors=True)


class StoredRows:
    """Rows of a file by their number.

    Args:
        path: A local file of rows, one behind the other.
        dtype: Structured type of a row.

    Attributes:
        count: Number of rows.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], mode: str = "rb") -> None:
        self._path = path
        self._dtype = dtype
        self._file: BinaryIO = path.open(mode, buffering=0)  # type: ignore[assignment]
        self.count = os.fstat(self._file.fileno()).st_size // dtype.itemsize

    def read(self, first: int, last: int) -> StructuredArray:
        """The rows [first, last); several threads may read at a time."""
        size = self._dtype.itemsize
        data = os.pread(self._file.fileno(), (last - first) * size, first * size)
        return np.frombuffer(data, self._dtype)

    def take(self, numbers: IntArray) -> StructuredArray:
        """The rows of these numbers, in their order."""
        size = self._dtype.itemsize
        places = (numbers * size).tolist()
        data = b"".join([os.pread(self._file.fileno(), size, place) for place in places])
        return np.frombuffer(data, self._dtype)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class RowFile(StoredRows):
    """Takes rows as they come and gives them by number.

    Args:
        path: A file of its own, removed at the end.
        dtype: Structured type of a row.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        super().__init__(path, dtype, "w+b")

    def append(self, rows: StructuredArray) -> None:
        """Adds [n] rows behind the others."""
        rows.tofile(self._file)
        self.count += len(rows)

    @override
    def close(self) -> None:
        super().close()
        self._path.unlink(missing_ok=True)
