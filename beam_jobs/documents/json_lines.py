"""JSON Lines: every line is an object with the document in one of its fields."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from beam_jobs.documents.base import Document, Format, Found, Part, RefusedDocument
from beam_jobs.documents.decoding import decode
from beam_jobs.documents.fields import Fields
from beam_jobs.options import TextOptions
from beam_jobs.refusal import Refusal


class JsonLines(Format):
    """See Format."""

    cut_by_lines = True

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        self._fields = Fields(options)

    def find(self, part: Part) -> Iterator[Found | RefusedDocument]:
        """See Format."""
        with part.open() as file:
            offset = 0
            for line in file:
                if line.strip():
                    yield Found(f"{offset:012d}", line.rstrip(b"\r\n"))
                offset += len(line)

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        text, encoding = decode(found.data, self.options.encoding)
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise Refusal("bad-json", str(error)) from None
        if not isinstance(row, dict):
            raise Refusal("no-text", f"a line must hold an object, got {type(row).__name__}")
        return self._fields.document(row, part, encoding)
