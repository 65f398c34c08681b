"""HTML files: a file is a document; cleaning removes its markup."""

from __future__ import annotations

import itertools
import re

import numpy as np
from typing_extensions import override

from beam_jobs.corpus.encoding_declarations import declared_in_page, meant_by_page
from beam_jobs.corpus.encodings import decode
from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord
from beam_jobs.options.encodings import AUTO

# The extractor of text visits the descendants of every ancestor, so nested boxes take time in the
# square of their depth: 5,000 take 0.2 s, 20,000 take 4 s. Browsers limit the depth to 512.
MAX_NESTED_BOXES = 4096
_BOXES = re.compile(
    r"<(/?)(?:div|section|article|main|aside|header|footer|nav|center|blockquote|form|fieldset"
    r"|table|ul|ol|dl)\b",
    re.IGNORECASE,
)


class Html(Format):
    """A page, which is a document."""

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        if self.text_form.encoding == AUTO:
            text, encoding = decode_page(found.data)
        else:
            text, encoding = decode(found.data, self.text_form.encoding)
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


def nested_boxes(page: str) -> int:
    """Depth of nested boxes of a page, if every end tag is correct."""
    if len(page) < 5 * MAX_NESTED_BOXES:
        return 0
    steps = [-1 if match[1] else 1 for match in _BOXES.finditer(page)]
    return int(np.cumsum(steps).max()) if steps else 0
