"""The body of an HTTP response as crawlers keep it, its codings undone (RFC 9110, RFC 9112)."""

from __future__ import annotations

import zlib
from email.message import Message
from typing import NamedTuple

import pyarrow as pa

from beam_jobs.corpus.codecs import GZIP_WINDOW, RAW_DEFLATE, ZLIB_WINDOW
from beam_jobs.corpus.encodings import is_utf8
from beam_jobs.corpus.formats.warc_records import parse_header, split_header
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import check_size

# Window bits that are tried; some servers send as "deflate" what has no zlib header.
_WINDOWS = {
    "gzip": (GZIP_WINDOW,),
    "x-gzip": (GZIP_WINDOW,),
    "deflate": (ZLIB_WINDOW, RAW_DEFLATE),
}
HTML = ("text/html", "application/xhtml+xml")
_ARROW_CODECS = {"br": "brotli", "zstd": "zstd"}


class Response(NamedTuple):
    """A response.

    Attributes:
        status: Its number.
        mime: Its media type in lower case, without parameters; "" if it declares none.
        charset: What it declares; "" if nothing.
        body: Its content.
    """

    status: int
    mime: str
    charset: str
    body: bytes


def parse_response(message: bytes, limit: int) -> Response:
    """The response in a message.

    A coding that is declared and absent is not damage: many crawlers undo it and keep the header.

    Args:
        message: Status line, header and body.
        limit: Most bytes of the decoded body.

    Raises:
        Rejection: It is not HTTP, or a coding cannot be undone.
    """
    head, body = split_header(message)
    protocol, _, rest = head.partition(b"\n")[0].partition(b" ")
    status = rest.strip()[:3]
    if not protocol.upper().startswith(b"HTTP/") or not status.isdigit():
        raise Rejection("not-http", f"the response begins with {head[:40]!r}")
    fields = parse_header(head)
    if "chunked" in fields.get("transfer-encoding", "").lower():
        body = _joined(body)
    codings = fields.get("content-encoding", "").lower().split(",")
    for coding in reversed([one.strip() for one in codings]):
        body = decoded_body(body, coding, limit)
    mime, charset = media_type(fields.get("content-type", ""))
    return Response(int(status), mime, charset, body)


def media_type(value: str) -> tuple[str, str]:
    """(media type, charset) of a Content-Type, both "" if it has none."""
    message = Message()
    message["content-type"] = " ".join(value.split())
    try:
        charset = message.get_param("charset", "")
    except (TypeError, ValueError):  # parts of it that are numbered in no way of RFC 2231
        charset = ""
    mime = value.partition(";")[0].strip().lower()
    return mime, charset.strip() if isinstance(charset, str) else ""


def _joined(body: bytes) -> bytes:
    """The chunks of a body together; the body if it is not in chunks.

    Raises:
        Rejection: A chunk is damaged or missing.
    """
    parts: list[bytes] = []
    at, first = 0, True
    while True:
        end = body.find(b"\n", at, at + 1024)
        digits = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        try:
            size = int(digits, 16) if digits[:1].isalnum() else -1
        except ValueError:
            size = -1
        if size < 0:
            if first:
                return body
            raise Rejection("damaged-record", f"no chunk begins at byte {at} of the body")
        if size == 0:
            return b"".join(parts)
        chunk = body[end + 1 : end + 1 + size]
        if len(chunk) < size:
            if first and not parts and size > len(body):
                return body  # a word that happens to be hexadecimal
            raise Rejection("damaged-record", f"a chunk has {len(chunk)} of {size} bytes")
        parts.append(chunk)
        at, first = end + 1 + size, False
        at += len(body[at : at + 2]) if body[at : at + 2] == b"\r\n" else body[at : at + 1] == b"\n"


def decoded_body(body: bytes, coding: str, limit: int) -> bytes:
    """A body without one coding.

    Raises:
        Rejection: It cannot be undone, or is unknown.
    """
    if coding in ("", "identity", "none", "utf-8") or not body:
        return body
    if coding in _WINDOWS:
        if coding != "deflate" and not body.startswith(b"\x1f\x8b"):
            return body
        for window in _WINDOWS[coding]:
            inflater = zlib.decompressobj(window)
            try:
                data = inflater.decompress(body, limit + 1)
            except zlib.error as error:
                why = str(error)
                continue
            check_size(len(data), limit)
            if inflater.eof:
                return data
            why = "it ends too early"
    elif coding in _ARROW_CODECS:
        try:
            with pa.CompressedInputStream(pa.BufferReader(body), _ARROW_CODECS[coding]) as stream:
                data = stream.read(limit + 1)
            check_size(len(data), limit)
            return bytes(data)
        except (pa.ArrowException, OSError) as error:
            why = str(error)
    else:
        raise Rejection("unknown-coding", f"the content encoding is {coding[:40]!r}")
    if is_utf8(body, whole=True):  # as compressed data never is
        return body
    raise Rejection("damaged-record", f"undoing {coding} fails: {why}")
