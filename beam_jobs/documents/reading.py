"""From a part of a file to documents, each with its record id and its original bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from beam_jobs.documents.base import Document, Format, Found, Part, RefusedDocument
from beam_jobs.refusal import Refusal
from beam_jobs.rejects import Reject


class ReadDocument(NamedTuple):
    """A document that was read, or why it was not.

    Attributes:
        record_id: Of the document.
        original: Its bytes as the source holds them, or as they were mended.
        outcome: The document, or why there is none.
    """

    record_id: str
    original: bytes
    outcome: Document | Reject


def read_part(part: Part, form: Format, repaired: tuple[Path, ...] = ()) -> Iterator[ReadDocument]:
    """Every document of a part, in order.

    Args:
        part: The part.
        form: Its format.
        repaired: Folders of mended originals, see `beam_jobs.repairs`.
    """
    found = form.find(part)
    while True:
        try:
            one = next(found)
        except StopIteration:
            return
        except Refusal as refusal:
            yield _refused(part, "", Reject("read", refusal.reason, refusal.detail, refusal.data))
            return
        except OSError as error:
            detail = f"reading it failed: {error.strerror or type(error).__name__}"
            yield _refused(part, "", Reject("read", "unreadable", detail, None))
            return
        if isinstance(one, RefusedDocument):
            yield _refused(part, one.place, one.reject)
        else:
            yield _parsed(one, part, form)


def record_id(part: Part, place: str) -> str:
    """The record id of what was found at a place of a part."""
    return f"{part.file_id}/{place}" if place else part.file_id


def _refused(part: Part, place: str, reject: Reject) -> ReadDocument:
    return ReadDocument(record_id(part, place), b"", reject)


def _parsed(found: Found, part: Part, form: Format) -> ReadDocument:
    name = record_id(part, found.place)
    try:
        return ReadDocument(name, found.data, form.parse(found, part))
    except Refusal as refusal:
        return ReadDocument(
            name, found.data, Reject("read", refusal.reason, refusal.detail, found.data)
        )
