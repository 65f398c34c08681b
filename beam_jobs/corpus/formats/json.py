"""JSON: an object or a string is a record; JSON Lines have one a line, a JSON file a list of them.

A JSON file that is not valid is rejected as a whole. So a list is read twice, and neither time more
of it is held than one record.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
from typing_extensions import override

from beam_jobs.corpus.encodings import UTF8, decode, encoding_of_lines
from beam_jobs.corpus.formats.base import FilePart, Format, Found, FoundRecord, first_records
from beam_jobs.corpus.formats.lines import LineFormat
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.source_io import TOO_LARGE, check_size
from beam_jobs.corpus.streams import ByteStream

_BLOCK_BYTES = 1 << 20  # 1 MiB a read
_MARK = b"\xef\xbb\xbf"
# Strings, and what opens, closes and separates outside of them.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_SPACE = b" \t\r\n"


class _JsonFormat(Format):
    """Records that are JSON values; the context is (encoding, first byte)."""

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        encoding, start = found.context
        value = _json_value(found.data, encoding, start)
        if isinstance(value, str):
            value = {self.extractor.columns[0]: value}
        elif not isinstance(value, dict):
            kind = "null" if value is None else type(value).__name__
            raise Rejection("no-text", f"a record must be an object or a string, got {kind}")
        annotations = self.annotations.read(value, part.annotations)
        payload = self.extractor.from_fields(value)
        return RawRecord("", found.data, payload, annotations, found.parsed or encoding)

    @override
    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        values: list[Any] = []
        try:
            for one in first_records(self.find_unchecked(part.beginning(self.limit))):
                with contextlib.suppress(Rejection):
                    values.append(_json_value(one.data, *one.context))
        except Rejection:
            if not values:
                raise
        return [value for value in values if isinstance(value, dict)]

    def find_unchecked(self, part: FilePart) -> Iterator[Found]:
        """As `find`, without reading to the end what only the first records are wanted of."""
        return self.find(part)


class JsonLines(_JsonFormat, LineFormat):
    """JSON values, one a line."""

    @override
    def find_parsed(self, part: FilePart) -> Iterator[Found | RawRecord]:
        # Anything but a usable object is left to `parse`, which says why.
        said, file_id, place = part.annotations, part.file_id, self.place
        from_fields, read = self.extractor.from_fields, self.annotations.read

        def parsed(offset: int, data: bytes) -> FoundRecord | RawRecord:
            name = place(offset)
            with contextlib.suppress(orjson.JSONDecodeError, Rejection):
                value = orjson.loads(data)
                if isinstance(value, dict):
                    record_id, text = f"{file_id}/{name}", from_fields(value)
                    return RawRecord(record_id, data, text, read(value, said), UTF8.name)
            return FoundRecord(name, data, (UTF8.name, offset))

        return self.find_lines(part, parse=parsed)


class Json(_JsonFormat):
    """A JSON value, or a list of them."""

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        try:
            yield from self._found(part, checked=True)
        except Rejection as rejection:
            is_kept = rejection.reason != TOO_LARGE
            raise rejection.with_data(self.readable_bytes(part) if is_kept else None) from None

    @override
    def find_unchecked(self, part: FilePart) -> Iterator[Found]:
        return self._found(part, checked=False)

    def _found(self, part: FilePart, *, checked: bool) -> Iterator[FoundRecord]:
        with part.open() as file:
            encoding = encoding_of_lines(file, self.text_form.encoding).name
            begin = file.head(_BLOCK_BYTES).removeprefix(_MARK).lstrip(_SPACE)[:1]
            is_list = encoding == "utf-8" and begin == b"["
        if is_list:
            if checked:
                with part.open() as file:
                    for element in _elements(file, self.limit):
                        _check(element)
            with part.open() as file:
                for offset, data in _elements(file, self.limit):
                    yield FoundRecord(self.place(offset), data, (encoding, offset))
            return
        data = self.whole(part)
        if encoding == "utf-8":
            yield FoundRecord("", data, (encoding, 0))
            return
        # Its bytes cannot be searched, since a bracket may be a part of a letter.
        value = _json_value(data, encoding)
        if not isinstance(value, list):
            yield FoundRecord("", data, (encoding, 0))
        for number, one in enumerate(value if isinstance(value, list) else ()):
            yield FoundRecord(self.place(number), orjson.dumps(one), ("utf-8", 0), encoding)


def _json_value(data: bytes, encoding: str, start: int = 0) -> Any:
    """The value of some JSON.

    Args:
        data: The JSON.
        encoding: Its encoding.
        start: Where in the file it begins.

    Raises:
        Rejection: It is not JSON, or not in this encoding.
    """
    try:
        if encoding != "utf-8":
            return orjson.loads(decode(data, encoding, start)[0])
        return orjson.loads(data.removeprefix(_MARK))
    except orjson.JSONDecodeError as error:
        decode(data, encoding, start)  # bytes that are not text are the better reason
        raise Rejection("bad-json", str(error)) from None


class _ListElement(NamedTuple):
    offset: int
    data: bytes


def _check(element: _ListElement) -> None:
    """Checks that an element is JSON.

    Raises:
        Rejection: It is not.
    """
    try:
        orjson.loads(element.data)
    except orjson.JSONDecodeError as error:
        decode(element.data, "utf-8", element.offset)
        raise Rejection("bad-json", f"the element at byte {element.offset}: {error}") from None


def _elements(file: ByteStream, limit: int) -> Iterator[_ListElement]:
    """The elements of a list, each without the space around it.

    They are found by brackets alone; the text between them is not parsed.

    Raises:
        Rejection: It is not a list.
    """
    block = file.read(_BLOCK_BYTES)
    base, start = 0, block.index(b"[") + 1  # of the block in the file, of the element in the block
    at, depth, commas = start, 1, 0
    while True:
        for token in _TOKENS.finditer(block, at):
            kind = token[0]
            at = token.end()
            if kind == b'"':
                at = token.start()  # the string continues after the block
                break
            if kind in b"[{":
                depth += 1
            elif kind in b"]}":
                depth -= 1
            if (depth == 1 and kind == b",") or depth == 0:
                element = _trimmed(block[start : token.start()], base + start)
                check_size(len(element.data), limit)
                if depth or commas or element.data:
                    yield element
                commas += 1
                start = at
            if depth == 0:
                _check_end(file, block[at:], kind)
                return
        else:
            at = max(at, len(block))
        check_size(len(block) - start, limit)
        unread, block, base = block[start:], b"", base + start
        more = file.read(max(_BLOCK_BYTES, len(unread)))
        if not more:
            file.check_whole()
            raise Rejection("bad-json", f"the file ends inside the list, at byte {base}")
        block, at, start = unread + more, at - start, 0


def _trimmed(data: bytes, offset: int) -> _ListElement:
    left = data.lstrip(_SPACE)
    return _ListElement(offset + len(data) - len(left), left.rstrip(_SPACE))


def _check_end(file: ByteStream, rest: bytes, bracket: bytes) -> None:
    """Checks that a list ends well.

    Raises:
        Rejection: It ends with another bracket, or more follows.
    """
    while bracket == b"]" and not rest.strip(_SPACE):
        rest = file.read(_BLOCK_BYTES)
        if not rest:
            file.check_whole()
            return
    raise Rejection("bad-json", "the list does not end with its bracket, or more follows it")
