"""One refused record for every reason: what it was, and what was wrong with it."""

from __future__ import annotations

from beam_jobs.corpus.names import shown_name
from beam_jobs.report.markup import Html, element, escape, foreign, note
from beam_jobs.report.previews import image_of_bytes, text_of_bytes
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import image, text
from shard_format.dropped import Refused, refused_bytes

_MOST_REASONS = 24
_MOST_BYTES = 16 << 20  # 16 MiB: a larger original gets no preview
_DETAIL_CHARACTERS = 400
_SHOWN_CHARACTERS, _SHOWN_LINES = 280, 6  # of an original


def content(reported: ReportedSet) -> Html:
    """Returns an example of every reason, the most frequent first."""
    if not reported.refused:
        return note("Nothing was refused.")
    shown = reported.refused[:_MOST_REASONS]
    explained = "One example of every reason. All originals are in quarantine/."
    if len(reported.refused) > len(shown):
        explained += f" {len(reported.refused) - len(shown)} rarer reasons are not shown."
    examples = [_example(reported, refused) for refused in shown]
    kind = "examples texts" if reported.holds_text else "examples"
    return escape((note(explained), element("ul", examples, class_=kind)))


def _example(reported: ReportedSet, refused: Refused) -> Html:
    data = refused_bytes(reported.directory, refused, _MOST_BYTES)
    preview = _document(data) if reported.holds_text else _image(data, refused)
    words = (
        element("h3", foreign(refused.reason, 60), " ", element("small", f"{refused.records:,}")),
        element("p", foreign(refused.detail, _DETAIL_CHARACTERS)),
        element(
            "p",
            foreign(shown_name(refused.record_id)),
            f", stage {refused.stage}" if refused.stage else None,
            class_="source",
        ),
    )
    if reported.holds_text:
        return element("li", words, preview)
    return element("li", preview, element("div", words))


def _document(data: bytes | None) -> Html:
    if data is None:
        return element("p", "no excerpt: too large, or not kept", class_="none")
    found = text_of_bytes(data)
    if found is not None:
        return text(found, _SHOWN_CHARACTERS, _SHOWN_LINES)
    begins = element("code", _hex(data, 64))
    return element("div", element("p", "not text; it begins with", class_="none"), begins)


def _image(data: bytes | None, refused: Refused) -> Html:
    found = image_of_bytes(data)
    if found is not None:
        return image(found, f"What can be decoded of an example of {refused.reason}")
    if data is None:
        return element("div", "no preview: too large, or not kept", class_="frame blank")
    begins = element("code", _hex(data, 16) or "no bytes")
    return element("div", "no preview", begins, class_="frame blank")


def _hex(data: bytes, count: int) -> str:
    """Returns the first bytes in hex."""
    return data[:count].hex(" ") + (" ..." if len(data) > count else "")
