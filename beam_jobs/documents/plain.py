"""Plain text: a file is a document, or every line, or what lies between separators."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.documents.base import Document, Format, Found, Part, RefusedDocument
from beam_jobs.documents.decoding import decode


class Plain(Format):
    """See Format."""

    def find(self, part: Part) -> Iterator[Found | RefusedDocument]:
        """See Format."""
        with part.open() as file:
            yield Found("", file.read())

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        text, encoding = decode(found.data, self.options.encoding)
        return Document(text, encoding=encoding, label=part.label, split=part.split)
