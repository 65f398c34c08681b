"""How much of its vocabulary the tokenizer uses, and how full packed sequences are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.charts import stacked_bar
from beam_jobs.report.markup import Html, element, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from foundation.wording import is_share, statistic

_PARTS = 1_000_000  # parts of a bar: shares are fractions


def applies(reported: ReportedSet) -> bool:
    """Returns whether records are tokens."""
    statistics = [info.statistics for info in reported.manifest.splits.values()]
    counted = any("vocabulary" in found or "packing" in found for found in statistics)
    return reported.holds_text and (counted or reported.packed)


def content(reported: ReportedSet) -> Html:
    """Returns a table for the vocabulary and one for packing, if the manifest has them."""
    tables = []
    for split, info in reported.manifest.splits.items():
        for name, title in (("vocabulary", "Vocabulary"), ("packing", "Packing")):
            found = info.statistics.get(name)
            if isinstance(found, Mapping) and found:
                tables.append(_table(f"{title}, over split {split}", found))
    if not tables:
        return note("The manifest of this set has no statistics of its tokens.")
    return element("div", tables, class_="pair")


def _table(caption: str, numbers: Mapping[str, Any]) -> Html:
    rows: list[tuple[object, ...]] = []
    for name, value in numbers.items():
        shown = statistic(name, value)
        if shown is None:
            continue
        share = is_share(name, value)
        bar = stacked_bar([round(value * _PARTS)], _PARTS) if share else None
        rows.append(((foreign(name.replace("_", " "), 40), bar), foreign(shown, 24)))
    return table(("", "value"), rows, caption, kind="classes")
