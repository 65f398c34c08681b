"""Parquet files with documents in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.documents.base import Stretch
from beam_jobs.documents.columnar import Columnar, Opened, Rows
from beam_jobs.sources.rows import DAMAGE
from beam_jobs.sources.streams import Bytes

_STRETCH_BYTES = 8 << 20  # 8 MiB of row groups at least, as they are unpacked
_BATCH_BYTES = 4 << 20  # 4 MiB of rows in memory at a time, about
_MAX_BATCH_ROWS = 4096
_BUFFER_BYTES = 1 << 20  # 1 MiB a system call; without a buffer a column is read whole


class Parquet(Columnar):
    """See Format."""

    @contextmanager
    def open_rows(self, file: Bytes) -> Iterator[Opened]:
        """See Columnar."""
        with pa.PythonFile(file, mode="r") as source:
            yield ParquetRows(source)

    def stretches(self, file: Bytes, size: int) -> list[Stretch]:
        """See Format."""
        try:
            with self.open_rows(file) as opened:
                found = list(opened.stretches()) if isinstance(opened, ParquetRows) else []
        except DAMAGE:
            found = []  # reading says what is wrong
        rising = all(one.start < one.end or one.end < 0 for one in found)
        return found if found and rising else super().stretches(file, size)


class ParquetRows(Opened):
    """See Opened; a group of rows is a row group."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(
            source,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self.schema = self._file.schema_arrow

    def stretches(self) -> Iterator[Stretch]:
        """Row groups, small ones together; `start` and `end` are numbers of rows."""
        metadata = self._file.metadata
        start = row = size = 0
        for number in range(metadata.num_row_groups):
            described = metadata.row_group(number)
            row += described.num_rows
            size += max(0, described.total_byte_size)
            if size >= _STRETCH_BYTES and number < metadata.num_row_groups - 1:
                yield Stretch(start, row, size)
                start, size = row, 0
        yield Stretch(start, -1, size)

    def rows(self, columns: list[str], start: int, end: int) -> Iterator[tuple[int, Rows]]:
        """See Opened."""
        metadata = self._file.metadata
        first = 0
        for number in range(metadata.num_row_groups):
            described = metadata.row_group(number)
            count, size = described.num_rows, described.total_byte_size
            if first >= start and (end < 0 or first < end):
                at_once = _BATCH_BYTES // max(1, size // max(1, count))
                at_once = max(1, min(_MAX_BATCH_ROWS, at_once))
                yield first, Rows(count, size, self._batches(number, columns, count, at_once))
            first += count

    def _batches(
        self, number: int, columns: list[str], count: int, at_once: int
    ) -> Iterator[pa.RecordBatch]:
        if columns:
            yield from self._file.iter_batches(at_once, [number], columns, use_threads=False)
            return
        for start in range(0, count, at_once):  # rows without any wanted column are rows too
            nulls = pa.nulls(min(at_once, count - start))
            yield pa.record_batch([nulls], names=[""])
