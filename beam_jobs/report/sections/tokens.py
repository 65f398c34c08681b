"""What the tokenizer makes of the corpus, and how full packed sequences are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.charts import stacked_bar
from beam_jobs.report.markup import Html, element, foreign, note, table
from beam_jobs.report.sections.base import Facts
from shard_format.wording import is_share, statistic

_PARTS = 1_000_000  # parts of a bar: shares are fractions


def applies(facts: Facts) -> bool:
    """Whether documents were made into tokens."""
    statistics = [info.statistics for info in facts.manifest.splits.values()]
    counted = any("vocabulary" in found or "packing" in found for found in statistics)
    return facts.holds_text and (counted or facts.packed)


def content(facts: Facts) -> Html:
    """A table for vocabulary and one for packing, as far as the manifest tells them."""
    made = []
    for split, info in facts.manifest.splits.items():
        for name, title in (("vocabulary", "Vocabulary"), ("packing", "Packing")):
            found = info.statistics.get(name)
            if isinstance(found, Mapping) and found:
                made.append(_table(f"{title}, over split {split}", found))
    if not made:
        return note("The manifest of this set tells nothing of its tokens.")
    return element("div", made, class_="pair")


def _table(caption: str, numbers: Mapping[str, Any]) -> Html:
    rows: list[tuple[object, ...]] = []
    for name, value in numbers.items():
        shown = statistic(name, value)
        if shown is None:
            continue
        share = is_share(name, value)
        bar = stacked_bar([round(value * _PARTS)], _PARTS) if share else None
        rows.append(((foreign(name.replace("_", " "), 40), bar), foreign(shown, 24)))
    return element("div", table(("", "value"), rows, caption), class_="classes")
