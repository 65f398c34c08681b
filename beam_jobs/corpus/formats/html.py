"""HTML files: a file is a document; cleaning removes its markup."""

from __future__ import annotations

import codecs
import re

import numpy as np

from beam_jobs.corpus.encodings import decode, is_utf8, marked, normal_name
from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.options import TextOptions
from beam_jobs.options.encodings import AUTO

# The encodings that browsers use for these names (WHATWG Encoding Standard, section 4.2).
_MEANT = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-16": "utf-16-le",
}
# Python's codecs that are not character encodings: these would change the text of a page.
_OF_PYTHON = frozenset(("unicode-escape", "raw-unicode-escape", "charmap", "idna", "punycode"))
_PRESCAN_BYTES = 1024  # WHATWG HTML, section 13.2.3.2: a charset must be declared in these
_CHARSET = re.compile(rb"<meta[^>]{0,512}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.I)

# The extractor of text visits the descendants of every ancestor, so nested boxes take time in the
# square of their depth: 5,000 take 0.2 s, 20,000 take 4 s. Browsers limit the depth to 512.
MAX_NESTED_BOXES = 4096
_BOXES = re.compile(
    r"<(/?)(?:div|section|article|main|aside|header|footer|nav|center|blockquote|form|fieldset"
    r"|table|ul|ol|dl)\b",
    re.IGNORECASE,
)


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

    A page that is valid UTF-8 is taken for that whatever is declared: few others are so by chance.

    Args:
        data: The page.
        declared: The charset that its server declared; "" if none.

    Raises:
        Rejection: It is not text in any of these.
    """
    if not marked(data[:4]) and not is_utf8(data, whole=True):
        meta = _CHARSET.search(data[:_PRESCAN_BYTES])
        for name in (declared, meta[1].decode("ascii") if meta else ""):
            try:
                return decode(data, meant_by(name))
            except (LookupError, Rejection):
                continue
    return decode(data, AUTO)


def meant_by(name: str) -> str:
    """The encoding that a page means by a name.

    Raises:
        LookupError: It names no character encoding.
    """
    try:
        known = codecs.lookup(name.strip().strip("\"'"))
    except ValueError:  # it has a zero or half a character in it
        raise LookupError(name) from None
    if not known._is_text_encoding or known.name in _OF_PYTHON:
        raise LookupError(name)
    normal = normal_name(known.name)
    return _MEANT.get(normal, normal)


def nested_boxes(page: str) -> int:
    """Depth of nested boxes of a page, if every end tag is correct."""
    if len(page) < 5 * MAX_NESTED_BOXES:
        return 0
    steps = [-1 if match[1] else 1 for match in _BOXES.finditer(page)]
    return int(np.cumsum(steps).max()) if steps else 0
