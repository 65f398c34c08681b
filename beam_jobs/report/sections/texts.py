"""A few documents of every class, as they are stored."""

from __future__ import annotations

from beam_jobs.report.choosing import MOST_CLASSES
from beam_jobs.report.markup import Html, element, escape, excerpt, foreign, note
from beam_jobs.report.sections.base import Facts
from beam_jobs.report.texts import ClassTexts, Excerpt, sample_texts

_SHOWN_CHARACTERS = 320
_SHOWN_LINES = 8


def content(facts: Facts) -> Html:
    """The beginnings of the first documents of each class."""
    samples = sample_texts(facts)
    if not samples:
        return note("There are no documents to show.")
    seed = facts.manifest.config.get("seed")
    explained = "The first records" + (" of each class" if facts.class_names else "")
    explained += f" in shuffled order (seed {seed})." if isinstance(seed, int) else " in order."
    if len(facts.class_names) > MOST_CLASSES:
        explained += f" The {MOST_CLASSES} most frequent of {len(facts.class_names):,} classes."
    if facts.class_names:
        return escape((note(explained), element("div", map(_class, samples), class_="documents")))
    made = element("div", _documents(samples[0]), class_="documents")
    return escape((note(explained), made))


def _class(sample: ClassTexts) -> Html:
    return element("div", element("h3", foreign(sample.name, 60)), _documents(sample))


def _documents(sample: ClassTexts) -> list[Html]:
    return [
        element(
            "div",
            sight(found, _SHOWN_CHARACTERS, _SHOWN_LINES),
            note(foreign(name, 60)),
            class_="document",
        )
        for name, found in sample.shown
    ]


def sight(found: Excerpt | None, limit: int, lines: int) -> Html:
    """An excerpt, or what stands in its place."""
    if found is None:
        return element("p", "no excerpt", class_="none")
    return excerpt(found.text, limit, lines, more=found.more)
