"""How much of its vocabulary the tokenizer uses, and how full packed sequences are."""

from __future__ import annotations

from collections.abc import Mapping

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from foundation.wording import is_share, statistic

_TITLES = {"vocabulary": "Vocabulary", "packing": "Packing"}


def content(reported: ReportedSet) -> Content:
    """A table for the vocabulary and one for packing, if the manifest has them."""
    splits = reported.manifest.splits
    counted = any(_TITLES.keys() & info.statistics.keys() for info in splits.values())
    if not reported.holds_text or not (counted or reported.packed):
        return None
    tables = []
    for split, info in splits.items():
        for kind, title in _TITLES.items():
            numbers = info.statistics.get(kind)
            if isinstance(numbers, Mapping) and numbers:
                rows = [
                    (name.replace("_", " "), shown, value if is_share(name, value) else None)
                    for name, value in numbers.items()
                    if (shown := statistic(name, value)) is not None
                ]
                tables.append((f"{title}, over split {split}", rows))
    if not tables:
        return "The manifest of this set has no statistics of its tokens."
    return {"tables": tables}
