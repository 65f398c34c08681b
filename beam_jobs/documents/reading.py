"""From a part of a file to documents, each with its record id and its original bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import Document, Format, Found, Ignored, Part, RefusedDocument
from beam_jobs.sources.base import MAX_RECORD_BYTES, read_file

_KEPT_BYTES = 16 << 20  # 16 MiB: of a file without a document; there are headers, blanks, zeros


class ReadDocument(NamedTuple):
    """A document that was read, or why it was not.

    Attributes:
        record_id: Of the document.
        original: Its bytes as the source holds them, or as they were mended.
        outcome: The document, or why there is none.
    """

    record_id: str
    original: bytes
    outcome: Document | Rejection | Ignored


class Mended(NamedTuple):
    """A file in place of the bytes of a document.

    Attributes:
        path: Where it is.
        size: Its bytes.
    """

    path: bytes
    size: int


def read_part(
    part: Part, form: Format, mended: Mapping[str, Mended] | None = None
) -> Iterator[ReadDocument]:
    """Every document of a part, in order.

    Args:
        part: The part.
        form: Its format.
        mended: Files in place of documents, by their place.
    """
    found = form.find(part)
    nothing = part.start == 0 and part.end < 0
    while True:
        try:
            one = next(found)
        except StopIteration:
            if nothing:
                yield _refused(part, "", _no_documents(part))
            return
        except Rejection as refusal:
            yield _refused(part, "", _reject(refusal, refusal.data))
            return
        except OSError as error:
            detail = f"reading it failed: {error.strerror or type(error).__name__}"
            yield _refused(part, "", Rejection("unreadable", detail, stage="read"))
            return
        nothing = False
        file = mended.get(one.place) if mended else None
        if isinstance(one, Ignored):
            yield ReadDocument(record_id(part, one.place), b"", one)
        elif file is not None:
            yield _parsed_mended(one, file, part, form)
        elif isinstance(one, RefusedDocument):
            yield _refused(part, one.place, one.reject)
        else:
            yield _parsed(one, part, form)


def record_id(part: Part, place: str) -> str:
    """The record id of what was found at a place of a part."""
    return f"{part.file_id}/{place}" if place else part.file_id


def _no_documents(part: Part) -> Rejection:
    """A file in which nothing was found must not vanish: it may be of another format."""
    detail = "there is no document in the file"
    try:
        with part.open_packed() if part.codec else part.open() as file:
            data = file.read(_KEPT_BYTES + 1)
    except (Rejection, OSError):
        return Rejection("no-documents", detail, stage="read")
    return Rejection(
        "no-documents", detail, stage="read", data=data if len(data) <= _KEPT_BYTES else None
    )


def _refused(part: Part, place: str, reject: Rejection) -> ReadDocument:
    if reject.data is not None and len(reject.data) > MAX_RECORD_BYTES:
        reject = reject.with_data(None)
    return ReadDocument(record_id(part, place), b"", reject)


def _reject(refusal: Rejection, data: bytes | None) -> Rejection:
    return refusal.at("read").with_data(data)


def _parsed(found: Found, part: Part, form: Format) -> ReadDocument:
    name = record_id(part, found.place)
    try:
        return ReadDocument(name, found.data, form.parse(found, part))
    except Rejection as refusal:
        return ReadDocument(name, found.data, _reject(refusal, found.data))


def _parsed_mended(
    one: Found | RefusedDocument, file: Mended, part: Part, form: Format
) -> ReadDocument:
    """A document with the bytes of a file in place of its own."""
    try:
        data = read_file(file.path, file.size)
    except (Rejection, OSError) as error:
        detail = f"the mended file cannot be read: {error}"
        return _refused(part, one.place, Rejection("unreadable", detail, stage="read"))
    if isinstance(one, RefusedDocument):
        # Left as it was exported, it is refused as it was.
        if data == one.reject.data:
            return _refused(part, one.place, one.reject)
        return _parsed(Found(one.place, data, one.context), part, form)
    return _parsed(one if data == one.data else Found(one.place, data, one.context), part, form)
