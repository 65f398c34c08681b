"""Which encoding a file declares: in an XML declaration, a meta tag, or a line for editors."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from resiliparse.parse.encoding import map_encoding_to_html5

_PRESCAN_BYTES = 1024  # WHATWG HTML, section 13.2.3.2: a charset must be declared in these
_XML = re.compile(
    rb"""\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*["']\s*([A-Za-z0-9_.:-]{2,40})\s*["'][^>]*\?>"""
)
_COMMENT = re.compile(rb"<!--.*?-->", re.S)
_META = re.compile(rb"""<meta[\s/]((?:"[^"]*"|'[^']*'|[^>"'])*)>""", re.I)
_ATTRIBUTE = re.compile(rb"""([^\s/=>"']+)\s*(?:=\s*("[^"]*"|'[^']*'|[^\s>"']+))?""")
_IN_CONTENT = re.compile(rb"""charset\s*=\s*["']?\s*([^\s;"']+)""", re.I)
# In the first two lines: Emacs (-*- coding: NAME -*-) and Vim (vim: set fileencoding=NAME :).
_FOR_EDITORS = re.compile(
    rb"-\*-.*?\bcoding:[ \t]*([\w.-]{2,40}).*?-\*-"
    rb"|\bvim?:.*?\bf(?:ile)?enc(?:oding)?=([\w.-]{2,40})"
)

# Names of the WHATWG Encoding Standard (section 4.2) that neither Python nor Resiliparse knows.
_NAMES = {
    **dict.fromkeys(("x-mac-cyrillic", "x-mac-ukrainian"), "mac-cyrillic"),
    "x-user-defined": "cp1252",
}
# The encodings that browsers use for names of smaller ones.
_OF_BROWSERS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "utf-16": "utf-16-le",
}
# Encodings with more characters, in which files under the name of the smaller one often are.
_LARGER = {
    "big5": ("big5hkscs", "cp950"),
    "euc_jp": ("euc_jis_2004",),
    "iso2022_jp": ("iso2022_jp_2", "iso2022_jp_ext", "iso2022_jp_2004"),
}
# Python's codecs that are not character encodings, and UTF-7, in which ASCII means something else.
_NO_ENCODINGS = frozenset(
    ("unicode-escape", "raw-unicode-escape", "charmap", "idna", "punycode", "utf-7", "undefined")
)


def codec_of(label: str) -> str:
    """Python's name of the character encoding with a name; "" if there is none."""
    name = label.strip().strip("\"'").lower()
    try:
        known = codecs.lookup(_NAMES.get(name, name))
    except LookupError:
        standard = map_encoding_to_html5(name, False)
        name = codec_of(standard) if standard and standard != name else ""
        return _OF_BROWSERS.get(name, name)
    except ValueError:  # a name may have a zero or half a character in it
        return ""
    if not known._is_text_encoding or known.name in _NO_ENCODINGS:
        return ""
    return "utf-8" if known.name == "utf-8-sig" else known.name


def meant_by_page(label: str) -> tuple[str, ...]:
    """The encodings that a page or a server may mean by a name, the likeliest first."""
    name = codec_of(label)
    return tuple(dict.fromkeys((_OF_BROWSERS.get(name, name), *larger_ones(name)))) if name else ()


def larger_ones(name: str) -> tuple[str, ...]:
    """An encoding, and those with more characters under its name."""
    return (name, *_LARGER.get(name, ()))


def label_in_xml(data: bytes) -> str:
    """The name in the XML declaration at the beginning; "" if there is none."""
    declaration = _XML.match(data[:_PRESCAN_BYTES])
    return _readable(declaration[1]) if declaration else ""


def declared_in_page(data: bytes) -> Iterator[str]:
    """The encodings that HTML declares, in the order to try them."""
    head = data[:_PRESCAN_BYTES]
    yield from meant_by_page(label_in_xml(data))
    for tag in _META.finditer(_COMMENT.sub(b"", head)):
        label = _charset_of(tag[1])
        if label:
            yield from meant_by_page(_readable(label))
            return


def declared_in_text(data: bytes) -> Iterator[str]:
    """The encodings that plain text or XML declares, in the order to try them.

    XML means what it says, so ISO-8859-1 is not windows-1252.
    """
    head = data[:_PRESCAN_BYTES]
    if label := label_in_xml(data):
        name = codec_of(label)
        if name:
            yield from larger_ones(name)
            yield _OF_BROWSERS.get(name, name)
    elif match := _FOR_EDITORS.search(b"\n".join(head.split(b"\n", 2)[:2])):
        name = codec_of((match[1] or match[2]).decode("latin-1"))
        if name:
            yield from larger_ones(name)
    elif head.lstrip()[:1] == b"<":
        yield from declared_in_page(data)


def _charset_of(attributes: bytes) -> bytes:
    """What a meta tag declares; nothing if it is about something else."""
    values = {
        one[1].lower(): (one[2] or b"").strip(b"\"'") for one in _ATTRIBUTE.finditer(attributes)
    }
    if values.get(b"charset", b"").strip():
        return values[b"charset"].strip()
    content = _IN_CONTENT.search(values.get(b"content", b""))
    is_type = values.get(b"http-equiv", b"").lower() == b"content-type"
    return content[1] if content and is_type else b""


def _readable(label: bytes) -> str:
    """A name; UTF-16 that is read as ASCII can only be UTF-8, as the standard says."""
    name = label.decode("latin-1")
    return "utf-8" if codec_of(name).startswith(("utf-16", "utf-32")) else name
