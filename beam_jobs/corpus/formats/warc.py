"""WARC files: pages as crawlers store them.

Responses, resources and conversions are documents. Requests, metadata and the like are counted as
ignored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from typing_extensions import override

from beam_jobs.corpus.encoding_declarations import declared_in_text, meant_by_page
from beam_jobs.corpus.encodings import decode
from beam_jobs.corpus.formats.base import FilePart, Format, Found, FoundRecord, FoundRejection
from beam_jobs.corpus.formats.html import decode_page
from beam_jobs.corpus.formats.http_response import HTML, Response, media_type, parse_response
from beam_jobs.corpus.formats.warc_records import (
    GzipMembers,
    WarcGap,
    WarcRecord,
    read_warc,
    split_record,
)
from beam_jobs.corpus.record import FILTER, IgnoredPart, RawRecord, Rejection
from beam_jobs.corpus.streams import ByteStream, opened
from beam_jobs.options.encodings import AUTO

_DOCUMENTS = ("response", "resource", "conversion")
_NO_DOCUMENTS = ("warcinfo", "request", "metadata", "revisit")
_TEXT = ("application/json", "application/xml", "application/javascript", "application/ld+json")
_UNKNOWN = ("", "application/octet-stream", "unk", "application/http")


class Warc(Format):
    """Pages of a WARC file."""

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        with _opened(part) as file:
            for one in read_warc(file, self.limit):
                if isinstance(one, WarcGap):
                    yield FoundRejection(self.place(one.offset), one.why.with_data(one.data))
                else:
                    yield _found(one, self.place(one.offset))

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        record = found.parsed
        if not isinstance(record, WarcRecord):
            record = split_record(found.data)
        kind, charset = media_type(record.fields.get("content-type", ""))
        response = Response(200, kind, charset, record.block)
        if kind == "application/http" and record.fields.get("warc-type") == "response":
            response = parse_response(record.block, self.limit)
        if not 200 <= response.status < 300:
            status = f"the server answered {response.status}"
            raise Rejection("http-status", status, stage=FILTER)
        text, encoding, is_html = _text_of(response)
        return RawRecord("", found.data, text, part.annotations, encoding, is_html)


def _opened(part: FilePart) -> ByteStream:
    """A WARC file, in which reading can continue after damage if it is gzip."""
    if part.codec == "gzip":
        return ByteStream(GzipMembers(opened(part.source())))
    return part.open()


def _found(record: WarcRecord, place: str) -> Found:
    fields = record.fields
    kind = fields.get("warc-type", "").lower()
    if kind in _NO_DOCUMENTS or fields.get("warc-target-uri", "").startswith("dns:"):
        return IgnoredPart(place)
    is_segment = (
        kind == "continuation"
        or fields.get("warc-segment-number", "1") != "1"
        or "warc-segment-total-length" in fields
    )
    if kind in _DOCUMENTS and not is_segment:
        return FoundRecord(place, record.data, None, record)
    reason, detail = "unknown-record", f"it is of the type {kind[:40]!r}"
    if is_segment:
        reason, detail = "segmented-record", "it is one part of several"
    return FoundRejection(place, Rejection(reason, detail, data=record.data))


def _text_of(response: Response) -> tuple[str, str, bool]:
    """(text, encoding, whether it is HTML) of a response.

    Raises:
        Rejection: It is not text.
    """
    mime, body = response.mime, response.body
    begin = body[:512].lstrip()[:16].lower()
    is_html = mime in HTML
    if mime in _UNKNOWN:
        is_html = begin.startswith((b"<!doctype", b"<html", b"<head", b"<body"))
    elif not is_html and not (mime.startswith("text/") or mime in _TEXT or mime.endswith("+xml")):
        raise Rejection("not-text", f"its content type is {mime[:80]!r}", stage=FILTER)
    if is_html:
        return (*decode_page(body, response.charset), True)
    names = itertools.chain(meant_by_page(response.charset), declared_in_text(body))
    return (*decode(body, AUTO, declared=names), False)
