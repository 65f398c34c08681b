"""WARC files: pages as crawlers keep them.

Responses, resources and conversions are documents. Requests, metadata and the like are none, and
are counted as ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    place_at,
)
from beam_jobs.documents.decoding import decode, is_utf8
from beam_jobs.documents.gzip_members import GzipMembers
from beam_jobs.documents.html import decode_page, meant_by
from beam_jobs.documents.http_body import Response, media_type, parse_response
from beam_jobs.documents.warc_records import (
    Gap,
    WarcRecord,
    read_warc,
    split_record,
)
from beam_jobs.sources.streams import Bytes

_DOCUMENTS = ("response", "resource", "conversion")
_NO_DOCUMENTS = ("warcinfo", "request", "metadata", "revisit")
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/json", "application/xml", "application/javascript", "application/ld+json")
_UNKNOWN = ("", "application/octet-stream", "unk", "application/http")


class Warc(Format):
    """See Format."""

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        with _opened(part) as file:
            for one in read_warc(file):
                if isinstance(one, Gap):
                    reject = Rejection(one.why.reason, one.why.detail, stage="read", data=one.data)
                    yield RefusedDocument(place_at(one.offset), reject)
                else:
                    yield _found(one)

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        record = found.parsed
        if not isinstance(record, WarcRecord):
            record = split_record(found.data)
        kind, charset = media_type(record.fields.get("content-type", ""))
        response = Response(200, kind, charset, record.block)
        if kind == "application/http" and record.fields.get("warc-type") == "response":
            response = parse_response(record.block)
        if not 200 <= response.status < 300:
            status = f"the server answered {response.status}"
            raise Rejection("http-status", status, stage=FILTER)
        return _document(response, part)


@contextmanager
def _opened(part: Part) -> Iterator[Bytes]:
    """A WARC file, in which reading can go on behind damage if it is gzip."""
    if part.codec != "gzip":
        with part.open() as file:
            yield file
        return
    with part.open_packed() as packed, Bytes(GzipMembers(packed)) as file:
        yield file


def _found(record: WarcRecord) -> Found | RefusedDocument | Ignored:
    place = place_at(record.offset)
    fields = record.fields
    kind = fields.get("warc-type", "").lower()
    refused = ""
    if kind in _NO_DOCUMENTS or fields.get("warc-target-uri", "").startswith("dns:"):
        return Ignored(place)
    if kind not in _DOCUMENTS and kind != "continuation":
        refused = f"unknown-record: it is of the type {kind[:40]!r}"
    elif (
        kind == "continuation"
        or fields.get("warc-segment-number", "1") != "1"
        or "warc-segment-total-length" in fields
    ):
        refused = "segmented-record: it is one part of several"
    if not refused:
        return Found(place, record.data, None, record)
    reason, _, detail = refused.partition(": ")
    return RefusedDocument(place, Rejection(reason, detail, stage="read", data=record.data))


def _document(response: Response, part: Part) -> Document:
    """The document that a response is.

    Raises:
        Rejection: It is no text.
    """
    mime, body = response.mime, response.body
    begins = body[:512].lstrip()[:16].lower()
    is_html = mime in _HTML
    if mime in _UNKNOWN:
        is_html = begins.startswith((b"<!doctype", b"<html", b"<head", b"<body"))
    elif not is_html and not (mime.startswith("text/") or mime in _TEXT or mime.endswith("+xml")):
        raise Rejection("not-text", f"its content type is {mime[:80]!r}", stage=FILTER)
    if is_html:
        text, encoding = decode_page(body, response.charset)
    else:
        text, encoding = _decoded(body, response.charset)
    return Document(text, is_html, encoding, part.label, split=part.split)


def _decoded(body: bytes, charset: str) -> tuple[str, str]:
    if charset and not is_utf8(body, whole=True):
        try:
            return decode(body, meant_by(charset))
        except (LookupError, Rejection):
            pass  # what servers say is often wrong
    return decode(body, "auto")
