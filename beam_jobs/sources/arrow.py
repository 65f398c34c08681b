"""Arrow IPC files and streams (also Feather version 2) with pictures in a column."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.column_files import ColumnFiles
from beam_jobs.sources.rows import DAMAGE, Group, why

FILE_MAGIC = b"ARROW1\0\0"
_STREAM_MAGIC = b"\xff\xff\xff\xff"  # a message of the format since Arrow 0.15


def footer_schema(source: pa.NativeFile) -> pa.Schema | None:
    """The schema of a file; None if its end is missing, where it holds a stream all the same."""
    try:
        return pa.ipc.open_file(source).schema
    except DAMAGE:
        return None


class Arrow(ColumnFiles):
    """Every row of every Arrow file below the roots."""

    @contextmanager
    def open_file(self, path: bytes) -> Iterator[_ArrowFile]:
        """See ColumnFiles."""
        try:
            with open(path, "rb") as file:
                head = file.read(len(FILE_MAGIC))
        except OSError as error:
            raise Rejection("unreadable", error.strerror or type(error).__name__) from None
        if head != FILE_MAGIC and not head.startswith(_STREAM_MAGIC):
            raise Rejection("not-an-arrow", f"the file begins with {head!r}, not as Arrow files do")
        with pa.memory_map(os.fsdecode(path)) as source:
            try:
                opened = _ArrowFile(source, is_file=head == FILE_MAGIC)
            except DAMAGE as error:
                raise Rejection(
                    "damaged-file", f"its schema cannot be read: {why(error)}"
                ) from None
            yield opened


class _ArrowFile:
    """See ColumnFile. A file whose end is missing is read as the stream that it contains."""

    def __init__(self, source: pa.MemoryMappedFile, is_file: bool) -> None:
        self._source = source
        self._start = len(FILE_MAGIC) if is_file else 0
        schema = footer_schema(source) if is_file else None
        self._has_footer = schema is not None
        self.schema = schema if schema is not None else self._stream(None).schema

    def groups(self, columns: Sequence[str]) -> Iterator[tuple[Group, Iterable[pa.RecordBatch]]]:
        # Some column must be read to learn how many rows there are; the last is rarely a picture.
        wanted = list(columns) or [self.schema.names[-1]]
        if self._has_footer:
            reader = pa.ipc.open_file(self._source, options=self._only(wanted))
            size = self._source.size() // max(1, reader.num_record_batches)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield Group(number, batch.num_rows, size), [batch]
            return
        stream, number, before = self._stream(wanted), 0, 0
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                break
            size, before = self._source.tell() - before, self._source.tell()
            yield Group(number, batch.num_rows, size), [batch]
            number += 1
        if self._start:
            raise ValueError("the file has no footer")

    def pictures(self, group: int, column: str) -> Iterator[pa.RecordBatch]:
        if self._has_footer:
            yield pa.ipc.open_file(self._source, options=self._only([column])).get_batch(group)
            return
        # Of a stream that is not compressed, going over a batch reads its head alone.
        stream = self._stream([column])
        for _ in range(group):
            stream.read_next_batch()
        yield stream.read_next_batch()

    def _stream(self, columns: Sequence[str] | None) -> pa.RecordBatchStreamReader:
        self._source.seek(self._start)
        options = pa.ipc.IpcReadOptions() if columns is None else self._only(columns)
        return pa.ipc.open_stream(self._source, options=options)

    def _only(self, columns: Sequence[str]) -> pa.ipc.IpcReadOptions:
        indexes = [self.schema.get_field_index(column) for column in columns]
        return pa.ipc.IpcReadOptions(included_fields=indexes)
