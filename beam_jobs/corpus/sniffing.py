"""The content of a file: an archive, a format or an image, by its first bytes, then by its name."""

from __future__ import annotations

import codecs
import os
import re

import orjson

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.containers.tar_headers import is_header as is_tar_header
from beam_jobs.corpus.encodings import is_utf8, marked, wide_by_zeros
from beam_jobs.corpus.formats.idx import is_header as is_idx_header
from beam_jobs.corpus.formats.tfrecord import is_frame
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import UnreadableError
from beam_jobs.corpus.streams import FileRange, opened

UNKNOWN = ""
IMAGE = "image"
HEAD_BYTES = 1 << 16  # 64 KiB are inspected
_TAR_HEADER_BYTES = 512
_MAGIC = {
    b"PK\3\4": "zip",
    b"PK\5\6": "zip",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",
    b"WARC/0.": "warc",
    b"WARC/1.": "warc",
    b"\xff\xd8\xff": IMAGE,
    b"\x89PNG": IMAGE,
    b"GIF8": IMAGE,
    b"II*\0": IMAGE,
    b"MM\0*": IMAGE,
}
CONTAINERS = ("tar", "zip")
# Files that are neither text nor records and have few zeros at their beginning.
_NOT_TEXT = (b"%PDF-", b"%!PS", b"{\\rtf", b"filedesc://")
# The first member of a zip that is one document of some program (OOXML, ODF, EPUB, Java).
_ZIPS_OF_PROGRAMS = (b"[Content_Types].xml", b"_rels/", b"mimetype", b"META-INF/")
_ZIP_NAME = 30  # where its name begins
IMAGE_EXTENSIONS = frozenset(
    ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "avif")
)
_TEXT_EXTENSIONS = {
    name: form
    for form, names in {
        "txt": ("txt", "text", "md", "rst", "log"),
        "html": ("html", "htm", "xhtml"),
        "json": ("json",),
        "jsonl": ("jsonl", "ndjson", "jsonlines"),
        "csv": ("csv",),
        "tsv": ("tsv", "tab"),
    }.items()
    for name in names
}
# Of files that are empty, or damaged at their beginning.
_BINARY_EXTENSIONS = {
    "tar": "tar",
    "tgz": "tar",
    "tzst": "tar",
    "txz": "tar",
    "tbz2": "tar",
    "zip": "zip",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
    "warc": "warc",
    "idx1-ubyte": "idx",
    "idx3-ubyte": "idx",
    "idx4-ubyte": "idx",
}
_CODEC_EXTENSIONS = ("gz", "zst", "zstd", "bz2", "xz", "gzip")
_MARKUP = re.compile(rb"\s*(<!--.{0,4096}?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_IDX_NAME = re.compile(r"idx[134]-ubyte$")


def container_in(head: bytes) -> str:
    """The key of CONTAINERS that a file is by its first bytes; "" if it is not an archive."""
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return "" if head[_ZIP_NAME:].startswith(_ZIPS_OF_PROGRAMS) else "zip"
    return "tar" if _is_tar(head) else ""


def container_of(path: bytes) -> str:
    """The key of CONTAINERS that a file is, compressed or not; "" if it is not an archive.

    Raises:
        UnreadableError: It cannot be read.
    """
    try:
        with opened(FileRange(path)) as file:
            head = file.head(_TAR_HEADER_BYTES)
        found = container_in(head)
        if found or not codec_of(head):
            return found
        with opened(FileRange(path), codec_of(head)) as file:
            found = container_in(file.head(_TAR_HEADER_BYTES))
        return found if found == "tar" else ""
    except Rejection:
        return ""  # reading says why


def image_kind(path: bytes) -> str:
    """The value of --source that reads a file of an image corpus, IMAGE, or UNKNOWN."""
    try:
        with opened(FileRange(path)) as file:
            head = file.head(_TAR_HEADER_BYTES)
        found = _binary_kind(head)
        if not found and codec_of(head):
            with opened(FileRange(path), codec_of(head)) as file:
                found = _binary_kind(file.head(_TAR_HEADER_BYTES))
    except (Rejection, UnreadableError):
        found = ""
    found = found or _kind_by_name(os.path.basename(path).decode("utf-8", "replace").lower())
    return UNKNOWN if found == "warc" else found


def is_image_name(name: str) -> bool:
    """Whether a file is an image by its extension, "7.jpg" or "7.seg.png"."""
    return name.rpartition(".")[2].lower() in IMAGE_EXTENSIONS


def text_format(head: bytes, name: str) -> str:
    """The format of a file of documents; UNKNOWN if it holds none.

    Args:
        head: Its first HEAD_BYTES, decompressed.
        name: Its own name.
    """
    found = _binary_kind(head)
    if found == IMAGE or found == "idx":
        return UNKNOWN
    if found:
        return UNKNOWN if found in CONTAINERS else found
    extension = _extension(name)
    named = _BINARY_EXTENSIONS.get(extension, "")
    if named and named not in (*CONTAINERS, "idx"):
        return named
    if "tfrecord" in name.lower():
        return "tfrecord"
    form = _TEXT_EXTENSIONS.get(extension, "")
    # A zero in a file with the name of a text format is a matter of its record.
    if head.startswith(_NOT_TEXT) or not (form or _is_text(head)):
        return UNKNOWN
    return _json_form(head, form) if form in ("", "json") else form


def _binary_kind(head: bytes) -> str:
    """An archive, a binary format or an image, by magic bytes; "" for others."""
    found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if found:
        return found
    # A TFRecord and a tar may begin with the magic bytes of a codec: see who calls.
    if is_frame(head[:12]):
        return "tfrecord"
    if _is_tar(head):
        return "tar"
    return "idx" if is_idx_header(head) else ""


def _is_tar(head: bytes) -> bool:
    header = head[:_TAR_HEADER_BYTES]
    return is_tar_header(header) and bool(header.strip(b"\0"))


def _kind_by_name(name: str) -> str:
    if is_image_name(name):
        return IMAGE
    extension = _extension(name)
    if "tfrecord" in name:
        return "tfrecord"
    stem = name.removesuffix(f".{name.rpartition('.')[2]}") if name.endswith(".gz") else name
    if _IDX_NAME.search(stem):
        return "idx"
    return _BINARY_EXTENSIONS.get(extension, UNKNOWN)


def _extension(name: str) -> str:
    """The text after the last dot of a name, in lower case, without that of a codec."""
    stem, dot, extension = name.lower().rpartition(".")
    if extension in _CODEC_EXTENSIONS and dot:
        stem, dot, extension = stem.rpartition(".")
    return extension if dot else ""


def _is_text(head: bytes) -> bool:
    """Whether bytes may be text: without a zero, unless they are UTF-16 or UTF-32."""
    return b"\0" not in head or bool(marked(head[:4]) or wide_by_zeros(head))


def _json_form(head: bytes, named: str) -> str:
    """The format of text whose name does not decide; a .json may hold JSON Lines."""
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
