"""Arrow IPC files and streams (also Feather version 2) with documents in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from beam_jobs.documents.columnar import Columnar, Opened, Rows
from beam_jobs.sources.arrow import FILE_MAGIC, footer_schema
from beam_jobs.sources.streams import Bytes

_SLICE_ROWS = 4096


class Arrow(Columnar):
    """See Format."""

    @contextmanager
    def open_rows(self, file: Bytes) -> Iterator[Opened]:
        """See Columnar."""
        is_file = file.head(len(FILE_MAGIC)) == FILE_MAGIC
        with pa.PythonFile(file, mode="r") as source:
            yield _ArrowRows(source, is_file)


class _ArrowRows(Opened):
    """See Opened; a file whose end is missing is read as the stream that it contains."""

    def __init__(self, source: pa.NativeFile, is_file: bool) -> None:
        self._source = source
        self._start = len(FILE_MAGIC) if is_file else 0
        schema = footer_schema(source) if is_file else None
        self._has_footer = schema is not None
        self.schema = schema if schema is not None else self._stream(pa.ipc.IpcReadOptions()).schema

    def rows(self, columns: list[str], start: int, end: int) -> Iterator[tuple[int, Rows]]:
        """See Opened."""
        # Some column must be read to learn how many rows there are.
        wanted = columns or self.schema.names[-1:]
        indexes = sorted({self.schema.get_all_field_indices(name)[0] for name in wanted})
        options = pa.ipc.IpcReadOptions(included_fields=indexes)
        size = self._source.size()
        first = 0
        for batch in self._batches(options):
            batch.validate()
            yield first, Rows(batch.num_rows, size, _sliced(batch))
            first += batch.num_rows
        if self._start and not self._has_footer:
            raise ValueError("the file has no footer")

    def _batches(self, options: pa.ipc.IpcReadOptions) -> Iterator[pa.RecordBatch]:
        if self._has_footer:
            reader = pa.ipc.open_file(self._source, options=options)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
            return
        yield from self._stream(options)

    def _stream(self, options: pa.ipc.IpcReadOptions) -> pa.RecordBatchStreamReader:
        self._source.seek(self._start)
        return pa.ipc.open_stream(self._source, options=options)


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, _SLICE_ROWS):
        yield batch.slice(start, _SLICE_ROWS)
