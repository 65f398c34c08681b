"""The mean picture of every class: what its pictures have in common, and what they should not."""

from __future__ import annotations

from beam_jobs.report.gallery import MOST_PER_CLASS
from beam_jobs.report.markup import Html, element, escape, foreign, foreign_words, note
from beam_jobs.report.sections.base import Facts, tile, tiles


def content(facts: Facts) -> Html:
    """One mean per class."""
    if not facts.samples:
        return note("There are no pictures to take a mean of.")
    made = [
        tile(
            element("img", src=sample.mean(), alt=foreign_words(f"Mean picture of {sample.name}")),
            (foreign(sample.name, 40), element("small", f"of {sample.records}")),
        )
        for sample in facts.samples
    ]
    explained = (
        f"Over the central square of the first records of each class, at most {MOST_PER_CLASS}, in "
        "shuffled order. A frame, a watermark or a background that all share is seen here at once."
    )
    return escape((note(explained), tiles(made)))
