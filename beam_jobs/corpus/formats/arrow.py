"""Arrow IPC files and streams (also Feather version 2) with records in a column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.formats.columnar import DAMAGE, MAX_BATCH_ROWS, Columnar, ColumnFile, RowGroup
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream

_FILE_MAGIC = b"ARROW1\0\0"
_STREAM_MAGIC = b"\xff\xff\xff\xff"  # a message of the format since Arrow 0.15


class Arrow(Columnar):
    """Rows of Arrow files and streams."""

    @override
    def open_file(self, file: ByteStream) -> ColumnFile:
        head = file.head(len(_FILE_MAGIC))
        if head != _FILE_MAGIC and not head.startswith(_STREAM_MAGIC):
            detail = f"the file begins with {head!r}, not as Arrow files do"
            raise Rejection("not-an-arrow", detail)
        return ArrowFile(pa.PythonFile(file, mode="r"), is_file=head == _FILE_MAGIC)


class ArrowFile(ColumnFile):
    """An Arrow file or stream; a group of rows is a record batch.

    A file whose end is missing is read as the stream that it contains.
    """

    def __init__(self, source: pa.NativeFile, is_file: bool) -> None:
        self._source = source
        self._start = len(_FILE_MAGIC) if is_file else 0
        schema = _footer_schema(source) if is_file else None
        self._has_footer = schema is not None
        self.schema = schema if schema is not None else self._stream(None).schema
        self._reader: pa.RecordBatchStreamReader | None = None
        self._columns: list[str] = []
        self._next = 0

    @override
    def groups(self) -> Iterator[RowGroup]:
        # Some column must be read to learn how many rows there are; the last is rarely large.
        last = self.schema.names[-1:]
        if self._has_footer:
            reader = pa.ipc.open_file(self._source, options=self._only(last))
            size = self._source.size() // max(1, reader.num_record_batches)
            for number in range(reader.num_record_batches):
                yield RowGroup(number, reader.get_batch(number).num_rows, size)
            return
        # The source has one position, which `batches` moves: all groups are counted first.
        counted: list[RowGroup] = []
        damage: Exception | None = None
        stream, before = self._stream(last), self._source.tell()
        try:
            for number, batch in enumerate(stream):
                size, before = self._source.tell() - before, self._source.tell()
                counted.append(RowGroup(number, batch.num_rows, size))
        except DAMAGE as error:
            damage = error
        yield from counted
        if damage is not None:
            raise damage
        if self._start:
            raise ValueError("the file has no footer")

    @override
    def batches(self, group: RowGroup, columns: list[str]) -> Iterator[pa.RecordBatch]:
        wanted = columns or self.schema.names[-1:]
        if self._has_footer:
            reader = pa.ipc.open_file(self._source, options=self._only(wanted))
            batch = reader.get_batch(group.number)
        else:
            if self._reader is None or self._columns != wanted or group.number < self._next:
                self._reader, self._columns, self._next = self._stream(wanted), wanted, 0
            while self._next < group.number:
                self._reader.read_next_batch()
                self._next += 1
            batch = self._reader.read_next_batch()
            self._next += 1
        batch.validate()
        for start in range(0, batch.num_rows, MAX_BATCH_ROWS):
            yield batch.slice(start, MAX_BATCH_ROWS)

    def _stream(self, columns: list[str] | None) -> pa.RecordBatchStreamReader:
        self._source.seek(self._start)
        options = pa.ipc.IpcReadOptions() if columns is None else self._only(columns)
        return pa.ipc.open_stream(self._source, options=options)

    def _only(self, columns: list[str]) -> pa.ipc.IpcReadOptions:
        indexes = sorted({self.schema.get_all_field_indices(name)[0] for name in columns})
        return pa.ipc.IpcReadOptions(included_fields=indexes)


def _footer_schema(source: pa.NativeFile) -> pa.Schema | None:
    """The schema of a file; None if its end is missing."""
    try:
        return pa.ipc.open_file(source).schema
    except DAMAGE:
        return None
