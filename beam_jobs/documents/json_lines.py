"""JSON Lines: every line is an object with the document in one of its fields, or is its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    Stretch,
)
from beam_jobs.documents.decoding import decode
from beam_jobs.documents.fields import LOOKED_AT, Fields
from beam_jobs.documents.lines import cut_lines
from beam_jobs.documents.plain import found_lines
from beam_jobs.options import TextOptions
from beam_jobs.sources.streams import Bytes

_MARK = b"\xef\xbb\xbf"


class JsonLines(Format):
    """See Format."""

    has_columns = True

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        return found_lines(part, self.options.encoding)

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        encoding, start = found.context
        return document_of(json_value(found.data, encoding, start), encoding, part, self._fields)

    def stretches(self, file: Bytes, size: int) -> list[Stretch]:
        """See Format."""
        return cut_lines(size)

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """See Format."""
        return looked_at(self.find(part))


def json_value(data: bytes, encoding: str, start: int = 0) -> Any:
    """What some JSON says.

    Args:
        data: The JSON.
        encoding: Its encoding.
        start: Where in the file it begins.

    Raises:
        Rejection: It is no JSON, or not in this encoding.
    """
    try:
        if encoding != "utf-8":
            return orjson.loads(decode(data, encoding, start)[0])
        return orjson.loads(data.removeprefix(_MARK))
    except orjson.JSONDecodeError as error:
        decode(data, encoding, start)  # bytes that are no text are the better reason
        detail = str(error)
    raise Rejection("bad-json", detail)


def document_of(value: Any, encoding: str, part: Part, fields: Fields) -> Document:
    """The document that an object or a string is.

    Raises:
        Rejection: It is neither, or the object lacks what the job needs.
    """
    if isinstance(value, dict):
        return fields.document(value, part, encoding)
    if isinstance(value, str):
        return fields.document({fields.text_column: value}, part, encoding)
    kind = "null" if value is None else type(value).__name__
    raise Rejection("no-text", f"a record must be an object or a string, got {kind}")


def looked_at(found: Iterator[Found | RefusedDocument | Ignored]) -> list[dict[str, Any]]:
    """The first objects among what was found, as far as they are that."""
    rows: list[dict[str, Any]] = []
    for _, one in zip(range(LOOKED_AT), found, strict=False):
        if isinstance(one, Found):
            try:
                value = json_value(one.data, *one.context)
            except Rejection:
                continue
            if isinstance(value, dict):
                rows.append(value)
    return rows
