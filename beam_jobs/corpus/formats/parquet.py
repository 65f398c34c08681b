"""Parquet files with records in a column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.corpus.formats.columnar import (
    BATCH_BYTES,
    MAX_BATCH_ROWS,
    Columnar,
    ColumnFile,
    RowGroup,
)
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream

_MAGIC = b"PAR1"
_BUFFER_BYTES = 1 << 20  # 1 MiB a system call; without a buffer a column is read whole


class Parquet(Columnar):
    """See Columnar."""

    def open_file(self, file: ByteStream) -> ColumnFile:
        """See Columnar."""
        head = file.head(len(_MAGIC))
        if head != _MAGIC:
            detail = f"the file begins with {head!r}, not with {_MAGIC!r}"
            raise Rejection("not-a-parquet", detail)
        return _ParquetFile(pa.PythonFile(file, mode="r"))


class _ParquetFile(ColumnFile):
    """See ColumnFile; a group of rows is a row group."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(
            source,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self.schema = self._file.schema_arrow

    def groups(self) -> Iterator[RowGroup]:
        """See ColumnFile."""
        metadata = self._file.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            yield RowGroup(number, group.num_rows, group.total_byte_size)

    def batches(self, group: RowGroup, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """See ColumnFile."""
        rows = BATCH_BYTES // max(1, group.bytes // max(1, group.rows))
        rows = max(1, min(MAX_BATCH_ROWS, rows))
        if columns:
            yield from self._file.iter_batches(rows, [group.number], columns, use_threads=False)
            return
        for start in range(0, group.rows, rows):  # rows without any wanted column are rows too
            yield pa.record_batch([pa.nulls(min(rows, group.rows - start))], names=[""])
