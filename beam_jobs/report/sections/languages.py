"""The languages of documents, and the character encodings of their sources."""

from __future__ import annotations

from collections import Counter

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from shard_format.index import count_values

_MOST_ROWS = 16
_COLUMNS = (("language", "language"), ("source_encoding", "encoding of the source"))


def content(reported: ReportedSet) -> Content:
    """A table for each, most frequent first; not for a packed sequence, which holds several."""
    if reported.packed or not reported.holds_text:
        return None
    splits = list(reported.manifest.splits)
    tables = []
    for column, title in _COLUMNS:
        counts = [count_values(reported.index(split), column) for split in splits]
        totals: Counter[str | None] = Counter()
        for own in counts:
            totals.update(own)
        if totals:
            order = sorted(totals, key=lambda value: (-totals[value], value or ""))
            rows = [(value, [own.get(value, 0) for own in counts]) for value in order[:_MOST_ROWS]]
            rest = [totals[value] for value in order[_MOST_ROWS:]]
            tables.append((title, rows, max(totals.values()), rest))
    if not tables:
        return "The index of this set has no languages."
    missing = not any("language" in reported.index(split).column_names for split in splits)
    return {"missing": missing, "splits": splits, "tables": tables}
