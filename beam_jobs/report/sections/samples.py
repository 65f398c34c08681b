"""A few pictures of every class, as they are stored."""

from __future__ import annotations

from beam_jobs.report.choosing import MOST_CLASSES
from beam_jobs.report.gallery import SHOWN_PER_CLASS, ClassSample
from beam_jobs.report.markup import Html, element, escape, foreign, foreign_words, note
from beam_jobs.report.sections.base import Facts


def content(facts: Facts) -> Html:
    """One strip of pictures per class."""
    if not facts.samples:
        return note("There are no pictures to show.")
    seed = facts.manifest.config.get("seed")
    explained = f"The first {SHOWN_PER_CLASS} records of each class in shuffled order"
    explained += f" (seed {seed})." if isinstance(seed, int) else "."
    if len(facts.class_names) > MOST_CLASSES:
        explained += f" The {MOST_CLASSES} most frequent of {len(facts.class_names):,} classes."
    strips = [_strip(sample) for sample in facts.samples]
    return escape((note(explained), element("div", strips, class_="strips")))


def _strip(sample: ClassSample) -> Html:
    pictures = []
    for record_id, picture in sample.shown:
        name = foreign_words(record_id)
        pictures.append(
            element("div", element("img", src=picture, alt=name, title=name), class_="frame")
        )
    heading = element("h3", foreign(sample.name, 60))
    return element("div", heading, element("div", pictures, class_="tiles"), class_="strip")
