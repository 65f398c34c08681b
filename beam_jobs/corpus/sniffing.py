"""The content of a file: an archive, a format or an image, by its first bytes, then by its name."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator

import orjson

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.containers.tar import is_header as is_tar_header
from beam_jobs.corpus.encodings import is_utf8, marked, wide_by_zeros
from beam_jobs.corpus.formats.idx import is_header as is_idx_header
from beam_jobs.corpus.formats.tfrecord import is_frame
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import UnreadableError
from beam_jobs.corpus.streams import FileRange, opened
from beam_jobs.options.formats import CONTAINERS, FORMATS, formats_of

UNKNOWN = ""
IMAGE = "image"
HEAD_BYTES = 1 << 16  # 64 KiB are inspected
_TAR_HEADER_BYTES = 512
_MAGIC = {magic: name for name, form in (CONTAINERS | FORMATS).items() for magic in form.magic}
# Files that are neither text nor records and have few zeros at their beginning.
_NOT_TEXT = (b"%PDF-", b"%!PS", b"{\\rtf", b"filedesc://")
# The first member of a zip that is one document of some program (OOXML, ODF, EPUB, Java).
_ZIPS_OF_PROGRAMS = (b"[Content_Types].xml", b"_rels/", b"mimetype", b"META-INF/")
_ZIP_NAME = 30  # where its name begins
_EXTENSIONS = {
    extension: name
    for name, form in (CONTAINERS | FORMATS).items()
    for extension in form.extensions
}
_CODEC_EXTENSIONS = ("gz", "zst", "zstd", "bz2", "xz", "gzip")
_PROLOG = rb"\s*(?:<\?xml[^>]{0,256}\?>\s*)?(?:<!--.{0,4096}?-->\s*)*"
_MARKUP = re.compile(_PROLOG + rb"<(!doctype\s+html|html|head|body)\b", re.I | re.S)
_XHTML = re.compile(_PROLOG + rb"<(!doctype\s+html|html)\b", re.I | re.S)
_XML = re.compile(rb"\s*<(\?xml\s|rss[\s>]|feed\s|TEI[\s>]|svg\s)")
_COCO = re.compile(rb'\s*\{\s*"(info|licenses|images|annotations|categories|type)"\s*:\s*[\[{"]')
_OF_COCO = re.compile(rb'"(file_name|image_id|supercategory)"\s*:')
_CHUNK_NAME = re.compile(r"^chunk-\d+-\d+(\.zstd)?\.bin$")
_IDX_NAME = re.compile(r"idx[134]-ubyte$")


def container_in(head: bytes) -> str:
    """The key of CONTAINERS that a file is by its first bytes; "" if it is not an archive."""
    if head.startswith(b"PK") and head[_ZIP_NAME:].startswith(_ZIPS_OF_PROGRAMS):
        return ""
    kind = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")
    if kind:
        return kind if kind in CONTAINERS else ""
    return "tar" if _is_tar(head) else ""


def container_of(path: bytes) -> str:
    """The key of CONTAINERS that a file is, compressed or not; "" if it is not an archive.

    Raises:
        UnreadableError: It cannot be read.
    """
    try:
        for codec, head in _heads(path):
            kind = container_in(head)
            if kind:
                return kind if kind == "tar" or not codec else ""
    except Rejection:
        pass  # reading says why
    return ""


def image_kind(path: bytes) -> str:
    """The value of --source that reads a file of an image corpus, IMAGE, or UNKNOWN."""
    name = os.path.basename(path).decode("utf-8", "replace")
    kind = content_kind(path) or _kind_by_name(name.lower())
    return kind if kind in CONTAINERS or kind in formats_of("image") else UNKNOWN


def content_kind(path: bytes) -> str:
    """An archive, a binary format or IMAGE, by the first bytes of a file; "" for others."""
    try:
        return next(filter(None, (_binary_kind(head) for _, head in _heads(path))), "")
    except (Rejection, UnreadableError):
        return ""


def text_kind(path: bytes) -> str:
    """The archive or format that a file of a text corpus is; UNKNOWN if it holds no documents."""
    name = os.path.basename(path).decode("utf-8", "replace")
    try:
        *_, (_, head) = _heads(path, HEAD_BYTES)
        return container_of(path) or text_format(head, name)
    except (Rejection, UnreadableError):
        return _kind_by_name(name.lower())


def is_coco(path: bytes) -> bool:
    """Whether a file is JSON with images, annotations and categories, in the form of COCO."""
    try:
        *_, (_, head) = _heads(path, HEAD_BYTES)
    except (Rejection, UnreadableError):
        return False
    return bool(_COCO.match(head) and _OF_COCO.search(head))


def _heads(path: bytes, size: int = _TAR_HEADER_BYTES) -> Iterator[tuple[str, bytes]]:
    """(codec, first bytes) of a file as it is stored, and decompressed if it is compressed."""
    with FileRange(path) as raw:
        head = raw.look(size)
    yield "", head
    if codec := codec_of(head):
        with opened(FileRange(path), codec) as file:
            yield codec, file.head(size)


def is_image_name(name: str) -> bool:
    """Whether a file is an image by its extension, "7.jpg" or "7.seg.png"."""
    return _EXTENSIONS.get(name.rpartition(".")[2].lower()) == IMAGE


def has_known_ending(name: str) -> bool:
    """Whether a name ends as those of a format or of an archive do."""
    return _extension(name) in _EXTENSIONS


def text_format(head: bytes, name: str) -> str:
    """The format of a file of documents; UNKNOWN if it holds none.

    Args:
        head: Its first HEAD_BYTES, decompressed.
        name: Its own name.
    """
    kind = _binary_kind(head)
    if kind:
        return kind if kind in formats_of("text") else UNKNOWN
    named = _EXTENSIONS.get(_extension(name), UNKNOWN)
    form = named if named in formats_of("text") else UNKNOWN
    if form and FORMATS[form].magic:
        return form  # it is damaged at its beginning, and reading says so
    if kind := _usual_name(name.lower()):
        return kind
    # A zero in a file with the name of a text format is a matter of its record.
    if head.startswith(_NOT_TEXT) or not (form or _is_text(head)):
        return UNKNOWN
    if form == "xml":
        return "html" if _XHTML.match(_as_utf8(head)) else form
    return _json_form(head, form) if form in ("", "json") else form


def _binary_kind(head: bytes) -> str:
    """An archive, a binary format or an image, by magic bytes; "" for others."""
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if kind:
        return kind
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
    if kind := _usual_name(name):
        return kind
    if _IDX_NAME.search(name.removesuffix(".gz")):
        return "idx"
    return _EXTENSIONS.get(_extension(name), UNKNOWN)


def _usual_name(name: str) -> str:
    """The format whose files have such names, in lower case, without an ending of their own."""
    for kind in ("tfrecord", "array_record"):
        if kind in name:
            return kind
    return "litdata" if _CHUNK_NAME.search(name) else ""


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
    return _markup_form(_as_utf8(head))


def _markup_form(head: bytes) -> str:
    if _MARKUP.match(head):
        return "html"
    return "xml" if _XML.match(head) else "txt"


def _as_utf8(head: bytes) -> bytes:
    """The beginning of a file without its mark, and in UTF-8 if it has the zeros of UTF-16."""
    encoding = marked(head[:4]) or (wide_by_zeros(head) if b"\0" in head[:4] else "")
    return head.decode(encoding, "ignore").removeprefix("\ufeff").encode() if encoding else head


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
