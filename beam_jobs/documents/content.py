"""What a file of documents holds: by how it begins, or else by its name, or else by its text."""

from __future__ import annotations

import codecs
import re

import orjson

from beam_jobs.documents.decoding import is_utf8, marked, wide_by_zeros
from beam_jobs.sources.frames import is_frame
from beam_jobs.sources.tar_headers import is_header

UNKNOWN = ""
HEAD_BYTES = 1 << 16  # 64 KiB are looked at
CONTAINERS = ("tar", "zip")
_MAGIC = {
    b"PK\3\4": "zip",
    b"PK\5\6": "zip",
    b"PAR1": "parquet",
    b"ARROW1\0\0": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"WARC/0.": "warc",
    b"WARC/1.": "warc",
}
# Formats with little or no zero byte at their beginning that are no text.
_NO_TEXT = (b"%PDF-", b"%!PS", b"{\\rtf", b"filedesc://", b"\x89PNG", b"\xff\xd8\xff", b"GIF8")
# The first member of a zip that is one document of some program (OOXML, ODF, EPUB, Java).
_ZIPS_OF_PROGRAMS = (b"[Content_Types].xml", b"_rels/", b"mimetype", b"META-INF/")
_ZIP_NAME = 30  # where its name begins
_NAMES = {
    "txt": ("txt", "text", "md", "rst", "log"),
    "html": ("html", "htm", "xhtml"),
    "json": ("json",),
    "jsonl": ("jsonl", "ndjson", "jsonlines"),
    "csv": ("csv",),
    "tsv": ("tsv", "tab"),
}
_BY_NAME = {name: form for form, names in _NAMES.items() for name in names}
# Of files that are damaged at their beginning.
_BINARY_NAMES = {"parquet": "parquet", "arrow": "arrow", "feather": "arrow", "warc": "warc"}
_CODEC_NAMES = ("gz", "zst", "zstd", "bz2", "xz", "gzip")
_MARKUP = re.compile(rb"\s*(<!--.{0,4096}?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)


def container_of(head: bytes) -> str:
    """The value of CONTAINERS that a file is by its first bytes; "" if it is none."""
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return "" if head[_ZIP_NAME:].startswith(_ZIPS_OF_PROGRAMS) else "zip"
    return "tar" if is_header(head[:512]) and head[:512].strip(b"\0") else ""


def format_of(head: bytes, name: str) -> str:
    """The format of a file; UNKNOWN if it is none that holds documents.

    Args:
        head: Its first HEAD_BYTES, decompressed.
        name: Its own name.
    """
    found = next((form for magic, form in _MAGIC.items() if head.startswith(magic)), "")
    if not found and is_frame(head[:12]):
        found = "tfrecord"
    if found:
        return UNKNOWN if found in CONTAINERS else found
    extension = extension_of(name)
    if extension in _BINARY_NAMES:
        return _BINARY_NAMES[extension]
    if "tfrecord" in name.lower():
        return "tfrecord"
    form = _BY_NAME.get(extension, "")
    # Of a file that says what it is, a zero is a matter of its record.
    if head.startswith(_NO_TEXT) or not (form or _is_text(head)):
        return UNKNOWN
    return _json_form(head, form) if form in ("", "json") else form


def extension_of(name: str) -> str:
    """What is behind the last dot of a name, in lower case, without that of a codec."""
    stem, dot, extension = name.lower().rpartition(".")
    if extension in _CODEC_NAMES and dot:
        stem, dot, extension = stem.rpartition(".")
    return extension if dot else ""


def _is_text(head: bytes) -> bool:
    """Whether bytes may be text: without a zero, unless they are UTF-16 or UTF-32."""
    return b"\0" not in head or bool(marked(head[:4]) or wide_by_zeros(head))


def _json_form(head: bytes, named: str) -> str:
    """What text without a telling name is; a .json may hold JSON Lines."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    first, newline, rest = text.partition(b"\n")
    if text[:1] == b"{" and is_utf8(head, whole=False):
        if newline and rest.strip() and _is_object(first):
            return "jsonl"
        if not named and (_is_object(first) or not newline):
            return "jsonl"
        if not named:
            return "json" if b'"' in text[:256] else "txt"
    if named:
        return named
    if text[:1] == b"[" and re.match(rb'\[\s*[{"\[\]]', text):
        return "json"
    return "html" if _MARKUP.match(head) else "txt"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
