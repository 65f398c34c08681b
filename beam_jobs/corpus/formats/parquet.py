"""Parquet files with records in a column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

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
_DELTAS = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")  # that Arrow cannot read as dictionaries
_MOST_BYTES = 64 << 20  # 64 MiB of such values at a time, were each as large as all of them


class Parquet(Columnar):
    """Rows of Parquet files."""

    @override
    def open_file(self, file: ByteStream) -> ColumnFile:
        head = file.head(len(_MAGIC))
        if head != _MAGIC:
            detail = f"the file begins with {head!r}, not with {_MAGIC!r}"
            raise Rejection("not-a-parquet", detail)
        return ParquetFile(pa.PythonFile(file, mode="r"))


class ParquetFile(ColumnFile):
    """A Parquet file; a group of rows is a row group.

    A value may be in every row, which takes a few bytes in a file. So text is read as dictionaries,
    whose rows are decoded as `row_sizes` says.

    Args:
        source: The file.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        options = {
            "buffer_size": _BUFFER_BYTES,
            "pre_buffer": False,
            "page_checksum_verification": True,
        }
        self._plain = pq.ParquetFile(source, **options)
        self.schema = self._plain.schema_arrow
        self._metadata = self._plain.metadata
        leaves = map(self._plain.schema.column, range(self._metadata.num_columns))
        self._texts = {
            leaf.path: number
            for number, leaf in enumerate(leaves)
            if leaf.physical_type == "BYTE_ARRAY" and leaf.converted_type != "DECIMAL"
        }
        self._file = pq.ParquetFile(
            source, metadata=self._metadata, read_dictionary=list(self._texts), **options
        )

    @override
    def groups(self) -> Iterator[RowGroup]:
        for number in range(self._metadata.num_row_groups):
            group = self._metadata.row_group(number)
            yield RowGroup(number, group.num_rows, group.total_byte_size)

    @override
    def batches(self, group: RowGroup, columns: list[str]) -> Iterator[pa.RecordBatch]:
        rows = BATCH_BYTES // max(1, group.bytes // max(1, group.rows))
        rows = max(1, min(MAX_BATCH_ROWS, rows))
        if not columns:  # rows without any wanted column are rows too
            for start in range(0, group.rows, rows):
                yield pa.record_batch([pa.nulls(min(rows, group.rows - start))], names=[""])
            return
        file, stored = self._file, self._stored(group, columns)
        if any(delta in one.encodings for one in stored for delta in _DELTAS):
            largest = max(one.total_uncompressed_size for one in stored)
            file, rows = self._plain, max(1, min(rows, _MOST_BYTES // max(1, largest)))
        yield from file.iter_batches(rows, [group.number], columns, use_threads=False)

    def _stored(self, group: RowGroup, columns: list[str]) -> list[pq.ColumnChunkMetaData]:
        """How the texts in some columns of a group are stored."""
        names, below = set(columns), tuple(f"{name}." for name in columns)
        row_group = self._metadata.row_group(group.number)
        return [
            row_group.column(number)
            for path, number in self._texts.items()
            if path in names or path.startswith(below)
        ]
