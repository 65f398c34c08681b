"""Rows of column files: what Parquet and Arrow have in common.

A record is a row, its bytes are those of its payload column. Rows that cannot be read are rejected
together. What is decoded at a time is bounded by its bytes, not by rows: see `row_sizes`.
"""

from __future__ import annotations

import abc
import bisect
import itertools
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
from typing_extensions import override

from beam_jobs.corpus.dataset_metadata import huggingface_classes
from beam_jobs.corpus.formats.base import (
    INSPECTED_RECORDS,
    FilePart,
    Format,
    Found,
    FoundRecord,
    FoundRejection,
    Split,
)
from beam_jobs.corpus.formats.row_sizes import bounded
from beam_jobs.corpus.record import Locator, RawRecord, Rejection
from beam_jobs.corpus.streams import ByteStream, FileRange, opened

_MAX_ROWS = 10**9  # of a file; more is damage
_PLAUSIBLE_ROWS = 10**7  # of a group, whatever its bytes: a damaged number may be any
_SPLIT_BYTES = 8 << 20  # 8 MiB of row groups at least, decompressed
# Of a list of URLs: splits aimed at, rows of one, and bytes that a row counts as.
_SPLITS_PER_LIST, _LEAST_LISTED_ROWS, _MOST_LISTED_ROWS = 64, 1 << 9, 1 << 13
_LISTED_ROW_BYTES = 64
_COPY_BYTES = 1 << 20  # 1 MiB at a time
BATCH_BYTES = 4 << 20  # 4 MiB of rows in memory at a time, about
MAX_BATCH_ROWS = 4096
# Arrow takes a damaged size for one that there is no memory for.
DAMAGE = (pa.ArrowException, OSError, ValueError, UnicodeDecodeError, MemoryError)


class RowGroup(NamedTuple):
    """Rows that are stored together.

    Attributes:
        number: Number of the group in the file.
        rows: How many it declares.
        bytes: Its size, about; no file has many more rows than bytes.
    """

    number: int
    rows: int
    bytes: int


class ColumnFile(abc.ABC):
    """An open file of rows with named columns.

    Attributes:
        schema: Names and types of its columns.
    """

    schema: pa.Schema

    @abc.abstractmethod
    def groups(self) -> Iterator[RowGroup]:
        """Every group, in order, without its columns."""

    @abc.abstractmethod
    def batches(self, group: RowGroup, columns: list[str]) -> Iterable[pa.RecordBatch]:
        """Some columns of a group, few rows at a time; groups are asked for in order."""


class Columnar(Format):
    """Rows of a column file; a split is of whole row groups, `seek` is the number of its first.

    Of a list of URLs it is of some rows, since a row group has more than a worker should fetch.
    """

    @abc.abstractmethod
    def open_file(self, file: ByteStream) -> ColumnFile:
        """Opens a file that can be read anywhere.

        Raises:
            Rejection: It is not of this format.
            DAMAGE: It cannot be opened.
        """

    def open_part(self, file: ByteStream, part: FilePart) -> ColumnFile:
        """`open_file` of a part, for what is next to it."""
        return self.open_file(file)

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        with _seekable(part) as file:
            try:
                yield from self._rows(self.open_part(file, part), part)
            except DAMAGE as error:
                data = self.readable_bytes(part)
                raise Rejection("damaged-file", first_line(error), data=data) from None

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        fields, classes = found.context
        payload = self.extractor.from_bytes(found.data)
        annotations = self.annotations.read(fields, part.annotations, classes)
        return RawRecord("", found.data, payload, annotations, "utf-8")

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        splits: list[Split] = []
        try:
            splits = list(_splits(self.open_file(file), self.extractor.weight))
        except (Rejection, *DAMAGE):
            pass  # reading says what is wrong
        rising = all(one.start < one.end or one.end < 0 for one in splits)
        return splits if splits and rising else super().splits(file, size)

    @override
    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        with _seekable(part) as file:
            try:
                return self._first_rows(self.open_part(file, part))
            except DAMAGE as error:
                raise Rejection("damaged-file", first_line(error)) from None

    def _first_rows(self, file: ColumnFile) -> list[dict[str, Any]]:
        fields = {field.name: field for field in reversed(list(file.schema))}  # the first of a name
        kinds = {name: _value_type(fields[name].type) for name in dict.fromkeys(file.schema.names)}
        times = Counter(file.schema.names)
        small = [name for name in kinds if times[name] > 1 or not _holds_bytes(fields[name].type)]
        # Types, not values, where a column can hold records: these may be large.
        typed = {*self.extractor.columns, *(kinds.keys() - set(small))}
        large = {name: kind for name, kind in kinds.items() if name in typed}
        for group in file.groups() if small else ():
            for batch in file.batches(group, small):
                if batch.num_rows:
                    _check(batch)
                    some, sizes = next(bounded(batch.slice(0, INSPECTED_RECORDS), BATCH_BYTES))
                    if sizes[0] > BATCH_BYTES:
                        return [kinds]
                    return [values | large for values in some.to_pylist()]
        return [kinds]

    def _rows(self, file: ColumnFile, part: FilePart) -> Iterator[Found]:
        names = file.schema.names
        needed = dict.fromkeys([*self.extractor.columns, *self.annotations.columns])
        for name in needed:
            if names.count(name) > 1:
                detail = f"the file has the column {name!r} {names.count(name)} times"
                raise Rejection("repeated-column", detail, data=self.readable_bytes(part))
        columns = [name for name in needed if name in names]
        classes = huggingface_classes(file.schema, self.annotations.labels)
        groups, first = file.groups(), 0
        while True:
            try:
                group = next(groups, None)
            except DAMAGE as error:
                yield self._unreadable(first, f"row {first} and what follows", error)
                return
            if group is None or 0 <= part.locator.end <= first:
                return
            if first + group.rows > _MAX_ROWS or group.rows > max(_PLAUSIBLE_ROWS, group.bytes):
                wrong = ValueError(f"{group.rows} rows are declared in {group.bytes} bytes")
                yield self._unreadable(first, f"row {first} and what follows", wrong)
                return
            if first + group.rows > part.locator.start or first == part.locator.start:
                yield from self._group(file, group, first, columns, classes, part.locator)
            first += group.rows

    def _group(
        self,
        file: ColumnFile,
        group: RowGroup,
        first: int,
        columns: list[str],
        classes: dict[str, list[str]],
        wanted: Locator,
    ) -> Iterator[Found]:
        """The rows of a group that are in a split."""
        row = first
        try:
            for batch in file.batches(group, columns):
                if 0 <= wanted.end <= row:
                    return
                _check(batch)
                end = wanted.end if wanted.end >= 0 else row + batch.num_rows
                skipped = min(max(0, wanted.start - row), batch.num_rows)
                row, batch = row + skipped, batch.slice(skipped, max(0, end - row - skipped))
                for some, sizes in bounded(batch, BATCH_BYTES):
                    if sizes[0] > self.limit:
                        yield self.too_large(row, int(sizes[0]), ({}, {}))
                        row += 1
                        continue
                    for record in self._found(some, row, classes):
                        row += 1
                        yield record
            if row - first != group.rows and not 0 <= wanted.end <= row:
                raise ValueError(f"{group.rows} rows are declared, there are {row - first}")
        except DAMAGE as error:
            last = first + group.rows - 1
            yield self._unreadable(row, f"rows {row} to {last}", error)

    def _found(
        self, batch: pa.RecordBatch, first: int, classes: dict[str, list[str]]
    ) -> Iterator[FoundRecord | FoundRejection]:
        """The rows of a batch."""
        cells = [self._cells(batch, name) for name in self.extractor.columns]
        fields = {
            name: _values(_decoded(batch.column(name)))
            for name in batch.schema.names
            if name in self.annotations.columns
        }
        for row in range(batch.num_rows):
            context = ({name: values[row] for name, values in fields.items()}, classes)
            own = [column[row] for column in cells]
            rejection = next((cell for cell in own if isinstance(cell, Rejection)), None)
            if rejection is not None:
                yield FoundRejection(self.place(first + row), rejection.with_data(b""), context)
                continue
            data = b"\n".join(cell for cell in own if isinstance(cell, bytes))
            yield FoundRecord(self.place(first + row), data, context)

    def _cells(self, batch: pa.RecordBatch, name: str) -> list[bytes | Rejection]:
        """The bytes in each cell of a payload column."""
        if name not in batch.schema.names:
            missing = Rejection(f"no-{self.extractor.noun}", f"there is no column {name!r}")
            return [missing] * batch.num_rows
        return self.extractor.cells(_decoded(batch.column(name)), name)

    def _unreadable(self, row: int, rows: str, error: Exception) -> FoundRejection:
        detail = f"{rows} cannot be read: {first_line(error)}"
        return FoundRejection(self.place(row), Rejection("damaged-file", detail), ({}, {}))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _holds_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _decoded(column: pa.Array) -> pa.Array:
    """A column without dictionaries, also in a struct; few rows: a value may be in all of them."""
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if not pa.types.is_struct(column.type):
        return column
    children = [_decoded(child) for child in column.flatten()]
    names = [field.name for field in column.type]
    return pa.StructArray.from_arrays(children, names, mask=column.is_null())


def first_line(error: Exception) -> str:
    """The first line of what a library says about damage."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _splits(file: ColumnFile, weight: int = 1) -> Iterator[Split]:
    """Row groups, small ones together; ranges of rows if each row is a URL to fetch."""
    start = row = size = seek = 0
    groups = list(file.groups())
    if weight > 1:
        yield from _row_ranges(groups)
        return
    for group in groups:
        row += group.rows
        size += max(0, group.bytes)
        if size >= _SPLIT_BYTES and group.number < groups[-1].number:
            yield Split(start, row, seek, size)
            start, size, seek = row, 0, group.number + 1
    yield Split(start, -1, seek, size)


def _row_ranges(groups: Sequence[RowGroup]) -> Iterator[Split]:
    """Ranges of rows, a power of two each, so that they rarely change while a list grows."""
    rows = sum(group.rows for group in groups)
    aimed = 1 << max(0, rows // _SPLITS_PER_LIST - 1).bit_length()
    step = min(_MOST_LISTED_ROWS, max(_LEAST_LISTED_ROWS, aimed))
    ends = list(itertools.accumulate(group.rows for group in groups))
    for start in range(0, max(1, rows), step):
        seek = min(bisect.bisect_right(ends, start), max(0, len(groups) - 1))
        end = start + step if start + step < rows else -1
        yield Split(start, end, seek, step * _LISTED_ROW_BYTES)


def _check(batch: pa.RecordBatch) -> None:
    """Checks that every cell is inside of its column; damage may have moved it anywhere.

    Text that is not UTF-8 is a matter of its row, so text is checked as bytes.

    Raises:
        ArrowInvalid: One is not.
    """
    for column in batch.columns:
        _as_bytes(column).validate(full=True)


def _as_bytes(column: pa.Array) -> pa.Array:
    """Text as bytes, also in a dictionary."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _as_bytes(column.dictionary))
    kind = _BYTES_OF.get(column.type)
    return column if kind is None else column.view(kind)


_BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; text that is not UTF-8 stays bytes."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return list(column.cast(pa.large_binary()).to_pylist())


@contextmanager
def _seekable(part: FilePart) -> Iterator[ByteStream]:
    """A part that can be read anywhere: copied to a scratch file if it is compressed."""
    with part.open() as file:
        if file.seekable():
            yield file
            return
        try:
            with part.scratch.open("wb") as sink:
                shutil.copyfileobj(file, sink, _COPY_BYTES)
            with opened(FileRange(bytes(part.scratch))) as copy:
                yield copy
        finally:
            part.scratch.unlink(missing_ok=True)
