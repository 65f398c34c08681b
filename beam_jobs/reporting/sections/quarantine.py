"""One refused record for every reason: what it was, and what was wrong with it."""

from __future__ import annotations

from beam_jobs.reporting.markup import Html, element, escape, foreign, foreign_words, note
from beam_jobs.reporting.pictures import hex_lines, preview
from beam_jobs.reporting.sections.base import Facts
from shard_format.dropped import Refused, refused_bytes

_MOST_REASONS = 24
_MOST_BYTES = 16 << 20  # 16 MiB: a larger original gets no preview
_MOST_LETTERS = 400  # of a detail


def content(facts: Facts) -> Html:
    """An example of every reason, the most frequent first."""
    if not facts.refused:
        return note("Nothing was refused.")
    shown = facts.refused[:_MOST_REASONS]
    explained = "One example of every reason. The originals, all of them, lie in quarantine/."
    if len(facts.refused) > len(shown):
        explained += f" {len(facts.refused) - len(shown)} rarer reasons are not shown."
    examples = [_example(facts, refused) for refused in shown]
    return escape((note(explained), element("ul", examples, class_="examples")))


def _example(facts: Facts, refused: Refused) -> Html:
    data = refused_bytes(facts.directory, refused, _MOST_BYTES)
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
    return element("li", _sight(data, refused), element("div", words))


def _sight(data: bytes | None, refused: Refused) -> Html:
    picture = preview(data)
    if picture is not None:
        name = foreign_words(f"What can be decoded of an example for {refused.reason}")
        return element("div", element("img", src=picture, alt=name), class_="frame")
    if data is None:
        return element("div", "no preview: too large, or not kept", class_="frame blank")
    begins = element("code", hex_lines(data) or "no bytes")
    return element("div", "no preview", begins, class_="frame blank")
