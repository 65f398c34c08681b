"""Arrow IPC files and streams (also Feather version 2) with documents in a column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from beam_jobs.documents.columnar import Columnar, Opened, Rows
from beam_jobs.sources.rows import DAMAGE
from beam_jobs.sources.streams import Bytes

_FILE_MAGIC = b"ARROW1\0\0"
_SLICE_ROWS = 4096
_BYTES_OF = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
}


class Arrow(Columnar):
    """See Format."""

    @contextmanager
    def open_rows(self, file: Bytes) -> Iterator[Opened]:
        """See Columnar."""
        is_file = file.head(len(_FILE_MAGIC)) == _FILE_MAGIC
        with pa.PythonFile(file, mode="r") as source:
            yield _ArrowRows(source, is_file)


class _ArrowRows(Opened):
    """See Opened; a file whose end is missing is read as the stream that it contains."""

    def __init__(self, source: pa.NativeFile, is_file: bool) -> None:
        self._source = source
        self._start = len(_FILE_MAGIC) if is_file else 0
        self._has_footer = False
        if is_file:
            try:
                self.schema = pa.ipc.open_file(source).schema
                self._has_footer = True
                return
            except DAMAGE:
                pass
        self.schema = self._stream(pa.ipc.IpcReadOptions()).schema

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
        part = batch.slice(start, _SLICE_ROWS)
        for column in part.columns:
            _as_bytes(column).validate(full=True)
        yield part


def _as_bytes(column: pa.Array) -> pa.Array:
    """A column whose places can be checked alone: text that is no UTF-8 is a matter of its row."""
    if pa.types.is_dictionary(column.type):
        words = _as_bytes(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, words, safe=False)
    kind = _BYTES_OF.get(column.type)
    return column.view(kind) if kind is not None else column
