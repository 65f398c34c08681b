"""Parquet files with pictures in a column, as Hugging Face data sets have them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.column_files import ColumnFiles
from beam_jobs.sources.rows import DAMAGE, LIST_ROWS, Group, why

_MAGIC = b"PAR1"
_BATCH_BYTES = 8 << 20  # 8 MiB of pictures in memory at a time, about
_MAX_BATCH_ROWS = 1024
_BUFFER_BYTES = 1 << 20  # 1 MiB a system call; without a buffer a column is read whole


class Parquet(ColumnFiles):
    """Every row of every Parquet file below the roots."""

    @contextmanager
    def open_file(self, path: bytes) -> Iterator[_ParquetFile]:
        """See ColumnFiles."""
        try:
            with open(path, "rb") as file:
                head = file.read(len(_MAGIC))
        except OSError as error:
            raise Rejection("unreadable", error.strerror or type(error).__name__) from None
        if head != _MAGIC:
            raise Rejection("not-a-parquet", f"the file begins with {head!r}, not with {_MAGIC!r}")
        with pa.OSFile(os.fsdecode(path)) as source:
            try:
                opened = _ParquetFile(source)
            except DAMAGE as error:
                raise Rejection(
                    "damaged-file", f"its footer cannot be read: {why(error)}"
                ) from None
            yield opened


class _ParquetFile:
    """See ColumnFile."""

    def __init__(self, source: pa.NativeFile) -> None:
        self._file = pq.ParquetFile(
            source,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        )
        self.schema = self._file.schema_arrow

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[Group, Iterable[pa.RecordBatch]]]:
        metadata = self._file.metadata
        for number in range(metadata.num_row_groups):
            described = metadata.row_group(number)
            # All columns: beside pictures, others weigh nothing.
            group = Group(number, described.num_rows, described.total_byte_size)
            if columns:
                yield group, self._file.iter_batches(LIST_ROWS, [number], list(columns))
            else:
                yield group, _without_columns(described.num_rows)

    def pictures(self, group: int, column: str) -> Iterator[pa.RecordBatch]:
        described = self._file.metadata.row_group(group)
        average = described.total_byte_size // max(1, described.num_rows)
        rows = max(1, min(_MAX_BATCH_ROWS, _BATCH_BYTES // max(1, average)))
        yield from self._file.iter_batches(rows, [group], [column], use_threads=False)


def _without_columns(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, LIST_ROWS):
        nulls = pa.nulls(min(LIST_ROWS, rows - start))
        yield pa.record_batch([nulls], names=["nothing"])
