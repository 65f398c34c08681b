"""Rows of column files: what Parquet and Arrow have in common.

A record is a row, its bytes are its text; rows that cannot be read are refused together.
"""

from __future__ import annotations

import abc
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    place_at,
)
from beam_jobs.documents.decoding import decode_value
from beam_jobs.documents.fields import LOOKED_AT, Fields
from beam_jobs.documents.plain import bytes_of
from beam_jobs.options import TextOptions
from beam_jobs.sources.rows import DAMAGE, MAX_ROWS, PLAUSIBLE_ROWS, class_names, why
from beam_jobs.sources.streams import Bytes, Range, opened

_COPIED_BYTES = 1 << 20  # 1 MiB at a time


class Rows(NamedTuple):
    """Rows that are stored together.

    Attributes:
        declared: How many.
        bytes: What they take, about; no file has many more rows than bytes.
        batches: The wanted columns of them, few rows at a time.
    """

    declared: int
    bytes: int
    batches: Iterator[pa.RecordBatch]


class Opened(abc.ABC):
    """A file of rows with named columns.

    Attributes:
        schema: Of its columns.
    """

    schema: pa.Schema

    @abc.abstractmethod
    def rows(self, columns: list[str], start: int, end: int) -> Iterator[tuple[int, Rows]]:
        """(number of the first row, rows) of the groups that begin in [start, end); -1: the end."""


class Columnar(Format):
    """See Format."""

    has_columns = True

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)

    @abc.abstractmethod
    def open_rows(self, file: Bytes) -> AbstractContextManager[Opened]:
        """Opens a file that can be read anywhere.

        Raises:
            DAMAGE: It cannot be opened.
        """

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        with seekable(part) as file:
            try:
                with self.open_rows(file) as opened_file:
                    yield from self._rows(opened_file, part)
            except DAMAGE as error:
                raise Rejection("damaged-file", why(error), data=bytes_of(part)) from None

    def _rows(self, file: Opened, part: Part) -> Iterator[Found | RefusedDocument]:
        names = file.schema.names
        columns = [name for name in self._fields.needed if names.count(name) == 1]
        label = self.options.label_column
        classes = class_names(file.schema, label) if label else []
        groups, row = file.rows(columns, part.start, part.end), -1
        while True:
            try:
                first, group = next(groups)
            except StopIteration:
                return
            except DAMAGE as error:
                yield _unreadable(row + 1, f"row {row + 1} and what follows", error)
                return
            row = first - 1
            if first + group.declared > MAX_ROWS or group.declared > max(
                PLAUSIBLE_ROWS, group.bytes
            ):
                wrong = ValueError(f"{group.declared} rows are declared in {group.bytes} bytes")
                yield _unreadable(first, f"row {first} and what follows", wrong)
                return
            try:
                for batch in group.batches:
                    _check(batch)
                    for found in self._found(batch, row + 1, classes):
                        row += 1
                        yield found
                if row + 1 - first != group.declared:
                    raise ValueError(
                        f"{group.declared} rows are declared, there are {row + 1 - first}"
                    )
            except DAMAGE as error:
                last = first + group.declared - 1
                yield _unreadable(row + 1, f"rows {row + 1} to {last}", error)
                row = last

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        row, classes = found.context
        text = decode_value(found.data)
        return self._fields.document(row, part, text=text, class_names=classes)

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """See Format."""
        with seekable(part) as file:
            try:
                with self.open_rows(file) as opened_file:
                    names = list(dict.fromkeys(opened_file.schema.names))
                    for _, group in opened_file.rows(names, 0, -1):
                        for batch in group.batches:
                            if batch.num_rows:
                                _check(batch)
                                return list(batch.slice(0, LOOKED_AT).to_pylist())
                    return [dict.fromkeys(names)]
            except DAMAGE as error:
                raise Rejection("damaged-file", why(error)) from None

    def _found(
        self, batch: pa.RecordBatch, first: int, classes: list[str]
    ) -> Iterator[Found | RefusedDocument]:
        """The rows of a batch."""
        texts = [_texts(batch, name) for name in self._fields.text_columns]
        others = {
            name: _values(batch.column(name))
            for name in batch.schema.names
            if name not in self._fields.text_columns
        }
        for row in range(batch.num_rows):
            context = ({name: values[row] for name, values in others.items()}, classes)
            cells = [column[row] for column in texts]
            refused = next((cell for cell in cells if isinstance(cell, Rejection)), None)
            if refused is not None:
                reject = Rejection(refused.reason, refused.detail, stage="read", data=b"")
                yield RefusedDocument(place_at(first + row), reject, context)
                continue
            data = b"\n".join(cell for cell in cells if isinstance(cell, bytes))
            yield Found(place_at(first + row), data, context)


def _check(batch: pa.RecordBatch) -> None:
    """Returns if every cell lies inside of its column; damage may have moved it anywhere.

    Text that is no UTF-8 is a matter of its row, so text is checked as bytes.

    Raises:
        ArrowInvalid: One does not.
    """
    for column in batch.columns:
        kind = _BYTES_OF.get(column.type)
        (column if kind is None else column.view(kind)).validate(full=True)


_BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def _unreadable(row: int, rows: str, error: Exception) -> RefusedDocument:
    detail = f"{rows} cannot be read: {why(error)}"
    return RefusedDocument(place_at(row), Rejection("damaged-file", detail, stage="read"), ({}, []))


def _texts(batch: pa.RecordBatch, name: str) -> list[bytes | Rejection]:
    """The bytes in each cell of a text column; they may be no UTF-8."""
    if name not in batch.schema.names:
        missing = Rejection("no-text", f"there is no column {name!r}")
        return [missing] * batch.num_rows
    column = batch.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not any(test(kind) for test in _HOLD_TEXT):
        wrong = Rejection("no-text", f"the text column {name!r} must hold text, got {kind}")
        return [wrong] * batch.num_rows
    null = Rejection("no-text", f"the text column {name!r} must hold text, got null")
    cells = column.cast(pa.large_binary()).to_pylist()
    return [null if cell is None else cell for cell in cells]


_HOLD_TEXT = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; text that is no UTF-8 stays bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return list(column.cast(pa.large_binary()).to_pylist())


@contextmanager
def seekable(part: Part) -> Iterator[Bytes]:
    """A part that can be read anywhere: copied to a scratch file, if it is compressed."""
    with part.open() as file:
        if file.seekable():
            yield file
            return
        try:
            with part.scratch.open("wb") as sink:
                shutil.copyfileobj(file, sink, _COPIED_BYTES)
            with opened(Range(bytes(part.scratch))) as copy:
                yield copy
        finally:
            part.scratch.unlink(missing_ok=True)
