"""CSV and TSV: rows of columns, with line breaks and separators inside of quotes (RFC 4180).

Python's csv module, strict: a quote that is not closed, or with more behind it, is refused and not
guessed at. A file is not cut, for a line break may lie inside of a field, which only reading all
before it tells.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    place_at,
    rest_of,
)
from beam_jobs.documents.decoding import Encoding, decode, encoding_of_lines
from beam_jobs.documents.fields import LOOKED_AT, Fields
from beam_jobs.documents.lines import Line, read_lines
from beam_jobs.documents.plain import bytes_of
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_names
from beam_jobs.sources.base import MAX_RECORD_BYTES

csv.field_size_limit(MAX_RECORD_BYTES)
_MAX_UNCLOSED = 100  # quotes of a file behind which reading begins again at the next line


class Columns(NamedTuple):
    """What a row needs to be parsed: the names of its columns, and its encoding."""

    names: tuple[str, ...]
    encoding: str
    offset: int


class Csv(Format):
    """See Format."""

    has_columns = True
    delimiter: ClassVar[str] = ","

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)
        self._names = parse_names("--columns", options.columns) if options.columns else ()

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        with part.open() as file:
            encoding = encoding_of_lines(file, self.options.encoding)
            rows = _Rows(read_lines(file, encoding.newline), encoding, self.delimiter)
            names = self._names
            for row in rows:
                context = Columns(names, encoding.name, row.offset)
                if row.refused is not None and not names:
                    detail = f"its header cannot be used: {row.refused.detail}"
                    raise Rejection(row.refused.reason, detail, data=bytes_of(part))
                if row.refused is not None:
                    yield RefusedDocument(place_at(row.offset), row.refused, context)
                elif not names:
                    names = tuple(row.values)
                    self._check_header(names, part)
                else:
                    yield Found(place_at(row.offset), row.data, context, row.values)
            if file.damage is not None:
                context = Columns(names, encoding.name, rows.behind)
                yield rest_of(rows.behind, file.damage, rows.cut or None, context)

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        names, encoding, offset = found.context
        values = found.parsed
        if values is None:
            values = self._row(found.data, encoding)
        if len(values) != len(names):
            detail = f"the row at byte {offset} has {len(values)} fields, of {len(names)} columns"
            raise Rejection("ragged-row", detail)
        row = dict(zip(names, values, strict=True))
        return self._fields.document(row, part, encoding)

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """See Format."""
        rows: list[dict[str, Any]] = []
        for _, one in zip(range(LOOKED_AT), self.find(part), strict=False):
            if isinstance(one, Found):
                rows.append(dict(zip(one.context.names, one.parsed, strict=False)))
        return rows

    def _row(self, data: bytes, encoding: str) -> list[str]:
        """The values of a mended row.

        Raises:
            Rejection: It is not one row.
        """
        text, _ = decode(data, encoding)
        lines = io.StringIO(text, newline="")
        try:
            rows = [row for row in csv.reader(lines, delimiter=self.delimiter, strict=True) if row]
        except csv.Error as error:
            raise Rejection("bad-csv", _said(error)) from None
        if len(rows) != 1:
            raise Rejection("bad-csv", f"there must be one row, got {len(rows)}")
        return rows[0]

    def _check_header(self, names: tuple[str, ...], part: Part) -> None:
        """Returns if each column that is read is there once at most.

        Raises:
            Rejection: One is there twice.
        """
        for name in self._fields.needed:
            if names.count(name) > 1:
                detail = f"the header names {name!r} {names.count(name)} times"
                raise Rejection("repeated-column", detail, data=bytes_of(part))


def _said(error: csv.Error) -> str:
    """What the csv module says, where that is for its callers in words for users."""
    text = str(error)
    if text.startswith("new-line character"):
        return "a carriage return alone stands outside of quotes; rows end in a line feed"
    return text


class Tsv(Csv):
    """See Format."""

    delimiter = "\t"


class _Row(NamedTuple):
    offset: int
    data: bytes
    values: list[str]
    refused: Rejection | None = None


class _Rows:
    """The rows of a file that are not blank.

    Attributes:
        behind: Where the next row begins.
        cut: The beginning of a last row that damage has cut.
    """

    def __init__(self, lines: Iterator[Line], encoding: Encoding, delimiter: str) -> None:
        self.behind = 0
        self.cut = b""
        self._lines = lines
        self._again: deque[Line] = deque()
        self._taken: list[Line] = []
        self._encoding = encoding
        self._delimiter = delimiter
        self._unclosed = 0
        self._bad: Rejection | None = None  # what is wrong with the text of the row

    def __iter__(self) -> Iterator[_Row]:
        """Every row in order."""
        while True:
            reader = csv.reader(_Text(self), delimiter=self._delimiter, strict=True)
            try:
                for values in reader:
                    yield from self._ended(values, None)
            except csv.Error as error:
                if str(error) != "unexpected end of data" or self.cut:
                    yield from self._ended([], Rejection("bad-csv", _said(error)))
                else:
                    yield from self._unclosed_quote()
                continue
            except Rejection as refusal:
                yield from self._ended([], refusal)
                continue
            return

    def next_text(self) -> str:
        """The text of the next line."""
        line = self._again.popleft() if self._again else next(self._lines)
        if not line.is_whole:
            self.cut = b"".join(one.data for one in self._taken) + line.data
            self._taken.clear()
            raise StopIteration
        self._taken.append(line)
        size = line.offset + line.size - self._taken[0].offset
        if size > MAX_RECORD_BYTES:
            raise Rejection("file-too-large", f"the row has more than {MAX_RECORD_BYTES} bytes")
        try:
            return decode(line.data, self._encoding.name, line.offset)[0]
        except Rejection as refusal:
            # The row goes on behind it all the same, if this is inside of quotes.
            self._bad = self._bad or refusal
            return line.data.decode(self._encoding.name, "replace").replace("\0", "?")

    def _ended(self, values: list[str], refusal: Rejection | None) -> Iterator[_Row]:
        """The row of the lines that were taken, if it is one."""
        lines, self._taken = self._taken, []
        refusal, self._bad = self._bad or refusal, None
        if not lines:
            return
        self.behind = lines[-1].offset + lines[-1].size
        data = lines[0].data if len(lines) == 1 else b"".join(line.data for line in lines)
        if refusal is None:
            if values:
                yield _Row(lines[0].offset, data, values)
            return
        kept = None if len(data) > MAX_RECORD_BYTES else data
        reject = Rejection(refusal.reason, refusal.detail, stage="read", data=kept)
        yield _Row(lines[0].offset, data, [], reject)

    def _unclosed_quote(self) -> Iterator[_Row]:
        """Refuses the line with a quote that is never closed, and goes on behind it."""
        self._unclosed += 1
        if self._unclosed <= _MAX_UNCLOSED:
            self._again.extendleft(reversed(self._taken[1:]))
            del self._taken[1:]
        yield from self._ended([], Rejection("bad-csv", "a quote is opened and never closed"))


class _Text:
    """Lines as text, as csv asks for them."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows

    def __iter__(self) -> _Text:
        return self

    def __next__(self) -> str:
        return self._rows.next_text()
