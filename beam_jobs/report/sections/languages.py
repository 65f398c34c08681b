"""The languages of documents, and the character encodings of their sources."""

from __future__ import annotations

from collections import Counter

from beam_jobs.report.charts import legend, stacked_bar
from beam_jobs.report.markup import Html, element, escape, foreign, note, table
from beam_jobs.report.sampling import ReportedSet
from shard_format.index import count_values

_MOST_ROWS = 16
_COLUMNS = (("language", "language"), ("source_encoding", "encoding of the source"))


def applies(reported: ReportedSet) -> bool:
    """Returns whether records are documents: a packed sequence holds several."""
    return reported.holds_text and not reported.packed


def content(reported: ReportedSet) -> Html:
    """Returns a table for each, most frequent first."""
    splits = list(reported.manifest.splits)
    tables = []
    for column, title in _COLUMNS:
        counts = {split: count_values(reported.index(split), column) for split in splits}
        totals: Counter[str | None] = Counter()
        for own in counts.values():
            totals.update(own)
        if totals:
            tables.append(_table(title, counts, totals))
    if not tables:
        return note("The index of this set has no languages.")
    missing = not any("language" in reported.index(split).column_names for split in splits)
    return escape(
        (
            note("No cleaning step detected languages.") if missing else None,
            legend(splits),
            element("div", tables, class_="pair"),
        )
    )


def _table(
    title: str, counts: dict[str, dict[str | None, int]], totals: Counter[str | None]
) -> Html:
    order = sorted(totals, key=lambda value: (-totals[value], value or ""))
    greatest = max(totals.values())
    rows = []
    for value in order[:_MOST_ROWS]:
        own = [counts[split].get(value, 0) for split in counts]
        name = "unknown" if value is None else foreign(value, 40)
        rows.append(((name, stacked_bar(own, greatest)), *(f"{count:,}" for count in own)))
    rest = order[_MOST_ROWS:]
    more = f"and {len(rest)} more, of {sum(totals[value] for value in rest):,} records"
    shown = table((title, *counts), rows)
    return element("div", shown, note(more) if rest else None, class_="classes")
