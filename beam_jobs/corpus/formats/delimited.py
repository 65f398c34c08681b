"""CSV and TSV: rows of columns, with line breaks and delimiters inside of quotes (RFC 4180).

Python's csv module, strict: a quote that is not closed, or with more after it, is rejected and not
guessed at. A line break may be inside of a field, so a file is split where rows begin: after a line
break with an even number of quotes before it. That is so only if quotes are around whole fields,
which is checked for every one of them; other files are not split. See decision 0034.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from beam_jobs.corpus.encodings import Encoding, decode, encoding_of_lines
from beam_jobs.corpus.formats.base import (
    FilePart,
    Format,
    Found,
    FoundRecord,
    FoundRejection,
    Split,
    first_records,
)
from beam_jobs.corpus.formats.lines import Line, read_lines, split_starts, splits_at
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.streams import ByteStream
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_names

csv.field_size_limit(1 << 30)  # of the module: --max-record-bytes bounds a row before it is parsed
_SCANNED_BYTES = 1 << 20  # 1 MiB at a time
_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'
_MAX_UNCLOSED = 100  # unclosed quotes of a file after which reading begins again at the next line


class Columns(NamedTuple):
    """What a row needs to be parsed: the names of its columns, and its encoding.

    Attributes:
        names: Names of the columns.
        encoding: Encoding of the bytes of the row.
        offset: First byte of the row.
        source: The encoding of the file, if its lines were converted; else "".
    """

    names: tuple[str, ...]
    encoding: str
    offset: int
    source: str = ""


class Csv(Format):
    """Rows with commas between fields, below a header."""

    splits_bytes = True
    reads_to_split = True
    delimiter: ClassVar[str] = ","

    def __init__(self, options: PreprocessOptions, extractor: FileExtractor) -> None:
        super().__init__(options, extractor)
        columns = self.text_form.columns
        self._names = parse_names("--columns", columns) if columns else ()

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        start, end = part.locator.start, part.locator.end
        names = self._names
        if start and not names:
            with part.open() as file:
                names = self._header(file, encoding_of_lines(file, self.text_form.encoding))
        file, encoding = self.open_lines(part, self.text_form.encoding)
        with file:
            lines = read_lines(file, encoding, self.limit, start, end)
            rows = DelimitedRows(lines, encoding, self.delimiter, self.limit, start)
            for row in rows:
                context = Columns(names, encoding.name, row.offset, encoding.source)
                if row.rejection is not None and not names:
                    detail = f"its header cannot be used: {row.rejection.detail}"
                    raise Rejection(row.rejection.reason, detail, data=self.readable_bytes(part))
                if row.rejection is not None:
                    yield FoundRejection(self.place(row.offset), row.rejection, context)
                elif not names:
                    names = tuple(row.values)
                    self._check_header(names, part)
                else:
                    yield FoundRecord(self.place(row.offset), row.data, context, row.values)
            if file.damage is not None and not 0 <= end <= rows.end:
                context = Columns(names, encoding.name, rows.end)
                yield self.after_damage(rows.end, file.damage, rows.cut or None, context)

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        names, encoding, offset, source = found.context
        values = found.parsed
        if values is None:
            values = self._row(found.data, encoding)
        if len(values) != len(names):
            detail = f"the row at byte {offset} has {len(values)} fields, of {len(names)} columns"
            raise Rejection("ragged-row", detail)
        row = dict(zip(names, values, strict=True))
        annotations = self.annotations.read(row, part.annotations)
        payload = self.extractor.from_fields(row)
        return RawRecord("", found.data, payload, annotations, source or encoding)

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        starts = None
        try:
            encoding = encoding_of_lines(file, self.text_form.encoding)
            if _has_plain_ascii(encoding.name):
                wanted = split_starts(size, self.extractor.weight)
                starts = row_starts(file, wanted, self.delimiter, self.limit)
            if starts and not self._names:
                file.seek(0)
                self._header(file, encoding)
        except Rejection:
            starts = None
        return splits_at(starts, size) if starts else super().splits(file, size)

    def _header(self, file: ByteStream, encoding: Encoding) -> tuple[str, ...]:
        """The names of the columns, of a file whose header can be used.

        Raises:
            Rejection: It cannot.
        """
        lines = read_lines(file, encoding, self.limit)
        first = next(iter(DelimitedRows(lines, encoding, self.delimiter, self.limit)))
        if first.rejection is not None:
            raise first.rejection
        self._check_repeated(tuple(first.values))
        return tuple(first.values)

    @override
    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        return [
            dict(zip(one.context.names, one.parsed, strict=False))
            for one in first_records(self.find(part.beginning(self.limit)))
        ]

    def _row(self, data: bytes, encoding: str) -> list[str]:
        """The values of a replaced row.

        Raises:
            Rejection: It is not one row.
        """
        text, _ = decode(data, encoding)
        lines = io.StringIO(text, newline="")
        try:
            rows = [row for row in csv.reader(lines, delimiter=self.delimiter, strict=True) if row]
        except csv.Error as error:
            raise Rejection("bad-csv", _described(error)) from None
        if len(rows) != 1:
            raise Rejection("bad-csv", f"there must be one row, got {len(rows)}")
        return rows[0]

    def _check_header(self, names: tuple[str, ...], part: FilePart) -> None:
        """As `_check_repeated`, with the bytes of the file."""
        try:
            self._check_repeated(names)
        except Rejection as rejection:
            raise rejection.with_data(self.readable_bytes(part)) from None

    def _check_repeated(self, names: tuple[str, ...]) -> None:
        """Checks that each column that is read is there once at most.

        Raises:
            Rejection: One is there twice.
        """
        for name in (*self.extractor.columns, *self.annotations.columns):
            if names.count(name) > 1:
                detail = f"the header names {name!r} {names.count(name)} times"
                raise Rejection("repeated-column", detail)


def _described(error: csv.Error) -> str:
    """The error of the csv module; where it addresses its callers, in words for users."""
    text = str(error)
    if text.startswith("new-line character"):
        return "a carriage return without line feed is outside of quotes; rows end in a line feed"
    return text


class Tsv(Csv):
    """Rows with tabs between fields, below a header."""

    delimiter = "\t"


def _has_plain_ascii(encoding: str) -> bool:
    """Whether quotes and line breaks are bytes of their own, as in UTF-8 and single-byte ones."""
    ascii_bytes, others = bytes(range(128)), bytes(range(128, 256))
    if ascii_bytes.decode(encoding, "replace") != ascii_bytes.decode():
        return False
    return encoding == "utf-8" or len(others.decode(encoding, "replace")) == len(others)


def row_starts(
    file: ByteStream, wanted: Sequence[int], delimiter: str, limit: int
) -> list[int] | None:
    """The first row that begins at or after each of some bytes; None if rows are not well-formed.

    They are well-formed if every quote opens a field, closes it, or is one of two inside of it, and
    outside of quotes a carriage return is a part of a line break. Then every line break with an
    even number of quotes before it is the end of a row for csv.reader.

    Args:
        file: At its beginning; in an encoding with the line breaks and quotes of ASCII.
        wanted: Ascending; the first is 0.
        delimiter: Between fields.
        limit: Most bytes of a row, beyond which it is rejected.
    """
    around = np.zeros(256, bool)
    around[[ord(delimiter), *b'\r\n"']] = True
    starts, quotes, position, last_end = [0], 0, 0, 0
    before = b"\n"
    left = deque(wanted[1:])
    while block := file.read(_SCANNED_BYTES):
        data = np.frombuffer(before + block, np.uint8)
        at = np.flatnonzero(data[1:] == _QUOTE) + 1
        opening = (np.arange(len(at)) + quotes) % 2 == 0
        if not around[data[at[opening] - 1]].all():
            return None
        # The byte behind a closing quote may be in the next block.
        closing = at[~opening]
        if not around[data[closing[closing + 1 < len(data)] + 1]].all():
            return None
        is_closed = (quotes % 2 == 0) and data[0] == _QUOTE
        if is_closed and not around[data[1]]:
            return None
        alone = np.flatnonzero((data[:-1] == _RETURN) & (data[1:] != _LINE_FEED))
        if ((np.searchsorted(at, alone) + quotes) % 2 == 0).any():
            return None
        breaks = np.flatnonzero(data[1:] == _LINE_FEED) + 1
        ends = breaks[(np.searchsorted(at, breaks) + quotes) % 2 == 0] + position
        if len(ends):
            sizes = np.diff(ends, prepend=last_end)
            if int(sizes.max()) > limit:
                return None
            last_end = int(ends[-1])
            while left and left[0] <= last_end:
                start = int(ends[np.searchsorted(ends, left.popleft())])
                if start > starts[-1]:
                    starts.append(start)
        quotes, position, before = quotes + len(at), position + len(block), block[-1:]
        if position - last_end > limit:
            return None
    if before == b"\r" or quotes % 2 or file.damage is not None:
        return None
    return [start for start in starts if start < position]


class DelimitedRow(NamedTuple):
    """One row.

    Attributes:
        offset: Its first byte.
        data: Its bytes.
        values: The values of its fields; none if it is rejected.
        rejection: Why it cannot be used, or None.
    """

    offset: int
    data: bytes
    values: list[str]
    rejection: Rejection | None = None


class DelimitedRows:
    """The rows of a file that are not blank.

    Attributes:
        end: Where the next row begins.
        cut: The beginning of a last row that damage cut off.
    """

    def __init__(
        self, lines: Iterator[Line], encoding: Encoding, delimiter: str, limit: int, start: int = 0
    ) -> None:
        self.end = start
        self._limit = limit
        self.cut = b""
        self._lines = lines
        self._again: deque[Line] = deque()
        self._taken: list[Line] = []
        self._encoding = encoding
        self._delimiter = delimiter
        self._unclosed = 0
        self._bad: Rejection | None = None  # of the text of the row

    def __iter__(self) -> Iterator[DelimitedRow]:
        """Every row in order."""
        while True:
            reader = csv.reader(iter(self._next_text, None), delimiter=self._delimiter, strict=True)
            try:
                for values in reader:
                    yield from self._ended(values, None)
            except csv.Error as error:
                if str(error) != "unexpected end of data" or self.cut:
                    yield from self._ended([], Rejection("bad-csv", _described(error)))
                else:
                    yield from self._unclosed_quote()
                continue
            except Rejection as rejection:
                yield from self._ended([], rejection)
                continue
            return

    def _next_text(self) -> str:
        """The text of the next line, as csv asks for it.

        Raises:
            StopIteration: There is none.
        """
        line = self._again.popleft() if self._again else next(self._lines)
        if not line.is_whole:
            self.cut = b"".join(one.data for one in self._taken) + line.data
            self._taken.clear()
            raise StopIteration
        self._taken.append(line)
        size = line.offset + line.size - self._taken[0].offset
        if size > self._limit:
            raise Rejection(TOO_LARGE, f"the row has more than {self._limit} bytes")
        try:
            return decode(line.data, self._encoding.name, line.offset)[0]
        except Rejection as rejection:
            # The row continues after it all the same, if this is inside of quotes.
            self._bad = self._bad or rejection
            return line.data.decode(self._encoding.name, "replace").replace("\0", "?")

    def _ended(self, values: list[str], rejection: Rejection | None) -> Iterator[DelimitedRow]:
        """The row of the lines that were taken, if it is one."""
        lines, self._taken = self._taken, []
        rejection, self._bad = self._bad or rejection, None
        if not lines:
            return
        self.end = lines[-1].offset + lines[-1].size
        data = lines[0].data if len(lines) == 1 else b"".join(line.data for line in lines)
        if rejection is None:
            if values:
                yield DelimitedRow(lines[0].offset, data, values)
            return
        kept = None if self.end - lines[0].offset > self._limit else data
        yield DelimitedRow(lines[0].offset, data, [], rejection.with_data(kept))

    def _unclosed_quote(self) -> Iterator[DelimitedRow]:
        """Rejects the line with a quote that is never closed, and continues after it."""
        self._unclosed += 1
        if self._unclosed <= _MAX_UNCLOSED:
            self._again.extendleft(reversed(self._taken[1:]))
            del self._taken[1:]
        yield from self._ended([], Rejection("bad-csv", "a quote is opened and never closed"))
