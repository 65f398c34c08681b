"""HTML files: a file is a document; cleaning removes its markup."""

from __future__ import annotations

import itertools

from beam_jobs.corpus.encoding_declarations import declared_in_page, meant_by_page
from beam_jobs.corpus.encodings import decode
from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord
from beam_jobs.options import TextOptions
from beam_jobs.options.encodings import AUTO


class Html(Format):
    """See Format."""

    options: TextOptions

    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        """See Format."""
        if self.options.encoding == AUTO:
            text, encoding = decode_page(found.data)
        else:
            text, encoding = decode(found.data, self.options.encoding)
        return RawRecord("", found.data, text, part.annotations, encoding, is_html=True)


def decode_page(data: bytes, declared: str = "") -> tuple[str, str]:
    """(text, encoding) of a page, by its mark, its server's header, its own meta tag, or detection.

    Args:
        data: The page.
        declared: The charset that its server declared; "" if none.

    Raises:
        Rejection: It is not text in any of these.
    """
    names = itertools.chain(meant_by_page(declared), declared_in_page(data))
    return decode(data, AUTO, declared=names)
