"""Parquet files with documents in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.documents.columnar import Columnar, Opened, Rows
from beam_jobs.sources.streams import Bytes

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

    @property
    def group_bytes(self) -> list[int]:
        """What each row group takes in the file, about."""
        metadata = self._file.metadata
        return [metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)]

    def rows(self, columns: list[str], start: int, end: int) -> Iterator[tuple[int, Rows]]:
        """See Opened."""
        metadata = self._file.metadata
        first = 0
        for number in range(metadata.num_row_groups):
            described = metadata.row_group(number)
            count, size = described.num_rows, described.total_byte_size
            if number >= start and (end < 0 or number < end):
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
