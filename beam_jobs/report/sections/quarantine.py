"""One refused record for every reason: what it was, and what was wrong with it."""

from __future__ import annotations

from typing import NamedTuple

from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.previews import THUMBNAIL_SIDE, Excerpt, image_of_bytes, text_of_bytes
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from shard_format.dropped import Refused, refused_bytes

_MOST_REASONS = 24
_MOST_BYTES = 16 << 20  # 16 MiB: a larger original gets no preview
_IMAGE_HEX, _TEXT_HEX = 16, 64  # bytes to show in hex of what has no preview


class Example(NamedTuple):
    """A refused record.

    Attributes:
        refused: Its record, reason and detail.
        kept: Whether its bytes are in the quarantine, and not too large.
        preview: What can be decoded of them, or None.
        begins: Their beginning in hex.
    """

    refused: Refused
    kept: bool
    preview: str | Excerpt | None
    begins: str


def content(reported: ReportedSet) -> Content:
    """An example of every reason, the most frequent first."""
    if not reported.refused:
        return "Nothing was refused."
    shown = reported.refused[:_MOST_REASONS]
    return {"examples": [example_of(reported, refused) for refused in shown]}


def example_of(reported: FinishedSet, refused: Refused, side: int = THUMBNAIL_SIDE) -> Example:
    """A refused record with its preview; `side` is that of an image, in pixels."""
    data = refused_bytes(reported.directory, refused, _MOST_BYTES)
    if data is None:
        return Example(refused, False, None, "")
    preview = text_of_bytes(data) if reported.holds_text else image_of_bytes(data, side)
    count = _TEXT_HEX if reported.holds_text else _IMAGE_HEX
    begins = data[:count].hex(" ") + (" ..." if len(data) > count else "")
    return Example(refused, True, preview, begins)
