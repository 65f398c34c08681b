"""One refused record for every reason: what it was, and what was wrong with it."""

from __future__ import annotations

from beam_jobs.report.markup import (
    Html,
    element,
    escape,
    excerpt,
    foreign,
    foreign_words,
    note,
)
from beam_jobs.report.pictures import hex_lines, preview
from beam_jobs.report.sections.base import Facts
from beam_jobs.report.texts import excerpt_of_bytes
from shard_format.dropped import Refused, refused_bytes

_MOST_REASONS = 24
_MOST_BYTES = 16 << 20  # 16 MiB: a larger original gets no preview
_MOST_LETTERS = 400  # of a detail
_SHOWN_LETTERS, _SHOWN_LINES = 280, 6  # of an original


def content(facts: Facts) -> Html:
    """An example of every reason, the most frequent first."""
    if not facts.refused:
        return note("Nothing was refused.")
    shown = facts.refused[:_MOST_REASONS]
    explained = "One example of every reason. The originals, all of them, lie in quarantine/."
    if len(facts.refused) > len(shown):
        explained += f" {len(facts.refused) - len(shown)} rarer reasons are not shown."
    examples = [_example(facts, refused) for refused in shown]
    kind = "examples texts" if facts.holds_text else "examples"
    return escape((note(explained), element("ul", examples, class_=kind)))


def _example(facts: Facts, refused: Refused) -> Html:
    data = refused_bytes(facts.directory, refused, _MOST_BYTES)
    sight = _document(data) if facts.holds_text else _picture(data, refused)
    words = (
        element("h3", foreign(refused.reason, 60), " ", element("small", f"{refused.records:,}")),
        element("p", foreign(refused.detail, _MOST_LETTERS)),
        element(
            "p",
            foreign(refused.record_id),
            f", stage {refused.stage}" if refused.stage else None,
            class_="source",
        ),
    )
    if facts.holds_text:
        return element("li", words, sight)
    return element("li", sight, element("div", words))


def _document(data: bytes | None) -> Html:
    if data is None:
        return element("p", "no excerpt: too large, or not kept", class_="none")
    found = excerpt_of_bytes(data)
    if found is not None:
        return excerpt(found.text, _SHOWN_LETTERS, _SHOWN_LINES, more=found.more)
    begins = element("code", hex_lines(data, 64))
    return element("div", element("p", "no text; it begins with", class_="none"), begins)


def _picture(data: bytes | None, refused: Refused) -> Html:
    picture = preview(data)
    if picture is not None:
        name = foreign_words(f"What can be decoded of an example for {refused.reason}")
        return element("div", element("img", src=picture, alt=name), class_="frame")
    if data is None:
        return element("div", "no preview: too large, or not kept", class_="frame blank")
    begins = element("code", hex_lines(data) or "no bytes")
    return element("div", "no preview", begins, class_="frame blank")
