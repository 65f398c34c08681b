"""JSON files: an object or a string is a document, a list is a list of such.

A file that is no JSON is refused as a whole. So a list is gone through twice, and neither time is
more of it held than one record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

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
from beam_jobs.documents.decoding import decode, detected, marked, normal_name
from beam_jobs.documents.fields import Fields
from beam_jobs.documents.json_lines import document_of, json_value, looked_at
from beam_jobs.documents.plain import bytes_of, whole
from beam_jobs.options import TextOptions
from beam_jobs.sources.base import check_size
from beam_jobs.sources.streams import Bytes

_BLOCK_BYTES = 1 << 20  # 1 MiB a read
_MARK = b"\xef\xbb\xbf"
# Strings, and what opens, closes and separates outside of them.
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_SPACE = b" \t\r\n"


class Json(Format):
    """See Format."""

    has_columns = True

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        try:
            yield from self._found(part)
        except Rejection as refusal:
            raise Rejection(refusal.reason, refusal.detail, data=bytes_of(part)) from None

    def _found(self, part: Part, *, checked: bool = True) -> Iterator[Found]:
        with part.open() as file:
            encoding = self._encoding(file)
            is_list = encoding == "utf-8" and _begins_list(file)
        if is_list:
            for element in _elements_of(part) if checked else ():
                _check(element)
            for element in _elements_of(part):
                yield Found(place_at(element.offset), element.data, (encoding, element.offset))
            return
        data = whole(part)
        if encoding == "utf-8":
            yield Found("", data, (encoding, 0))
            return
        # Its bytes cannot be gone through, for a bracket may be a part of a letter.
        value = json_value(data, encoding)
        if not isinstance(value, list):
            yield Found("", data, (encoding, 0))
        for number, one in enumerate(value if isinstance(value, list) else ()):
            yield Found(place_at(number), orjson.dumps(one), ("utf-8", 0), encoding)

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        encoding, start = found.context
        value = json_value(found.data, encoding, start)
        return document_of(value, found.parsed or encoding, part, self._fields)

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """See Format."""
        return looked_at(self._found(part, checked=False))

    def _encoding(self, file: Bytes) -> str:
        name = normal_name(self.options.encoding)
        if name in ("auto", "utf-16", "utf-32"):
            head = file.head(_BLOCK_BYTES)
            return detected(head) if name == "auto" else marked(head[:4]) or f"{name}-le"
        return name


class _Element(NamedTuple):
    offset: int
    data: bytes


def _check(element: _Element) -> None:
    """Returns if an element is JSON.

    Raises:
        Rejection: It is none.
    """
    try:
        orjson.loads(element.data)
    except orjson.JSONDecodeError as error:
        decode(element.data, "utf-8", element.offset)
        raise Rejection("bad-json", f"the element at byte {element.offset}: {error}") from None


def _begins_list(file: Bytes) -> bool:
    return file.head(_BLOCK_BYTES).removeprefix(_MARK).lstrip(b" \t\r\n")[:1] == b"["


def _elements_of(part: Part) -> Iterator[_Element]:
    """The elements of a list, each without the space around it.

    Raises:
        Rejection: It is no list.
    """
    with part.open() as file:
        yield from _split(file)


def _split(file: Bytes) -> Iterator[_Element]:
    """The elements of a list by brackets alone; what is between them is not looked at."""
    block = file.read(_BLOCK_BYTES)
    base, start = 0, block.index(b"[") + 1  # of the block in the file, of the element in the block
    at, depth, commas = start, 1, 0
    while True:
        for token in _TOKENS.finditer(block, at):
            kind = token[0]
            at = token.end()
            if kind == b'"':
                at = token.start()  # the string goes on behind the block
                break
            if kind in b"[{":
                depth += 1
            elif kind in b"]}":
                depth -= 1
            if (depth == 1 and kind == b",") or depth == 0:
                element = _trimmed(block[start : token.start()], base + start)
                if depth or commas or element.data:
                    yield element
                commas += 1
                start = at
            if depth == 0:
                _check_end(file, block[at:], kind)
                return
        else:
            at = max(at, len(block))
        check_size(len(block) - start)
        unread, block, base = block[start:], b"", base + start
        more = file.read(max(_BLOCK_BYTES, len(unread)))
        if not more:
            if file.damage is not None:
                raise file.damage
            raise Rejection("bad-json", f"the file ends inside the list, at byte {base}")
        block, at, start = unread + more, at - start, 0


def _trimmed(data: bytes, offset: int) -> _Element:
    left = data.lstrip(_SPACE)
    return _Element(offset + len(data) - len(left), left.rstrip(_SPACE))


def _check_end(file: Bytes, rest: bytes, bracket: bytes) -> None:
    """Returns if a list ends well.

    Raises:
        Rejection: With another bracket, or with more behind it.
    """
    while bracket == b"]" and not rest.strip(_SPACE):
        rest = file.read(_BLOCK_BYTES)
        if not rest:
            if file.damage is not None:
                raise file.damage
            return
    raise Rejection("bad-json", "the list does not end with its bracket, or more is behind it")
