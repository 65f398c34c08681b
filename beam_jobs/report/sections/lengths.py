"""How long documents are, in characters, words, tokens and bytes, as the manifest counted them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.charts import counted_histogram
from beam_jobs.report.markup import Html, element, escape, note
from beam_jobs.report.sections.base import Facts
from shard_format.wording import counted, format_bytes

_COLUMNS = (
    ("chars", "Characters of a document"),
    ("words", "Words of a document"),
    ("tokens", "Tokens of a document"),
)
_BYTES = ("source_bytes", "Size of a document in the source")


def content(facts: Facts) -> Html:
    """Histograms over the training split, the only one whose numbers the manifest keeps."""
    for split, info in facts.manifest.splits.items():
        statistics = info.statistics
        charts = [_chart(statistics.get(name), title, _whole) for name, title in _COLUMNS]
        name, title = _BYTES
        charts.append(_chart(statistics.get(name), title, _size, 1 << 10))
        made = [chart for chart in charts if chart is not None]
        if made:
            # A packed sequence is a record, and has no length of its own.
            count = "documents" if facts.packed else counted(info.records, "record")
            over = f"Over the {count} of split {split}."
            return escape((note(over), element("div", made, class_="charts")))
    return note("There are no records to measure.")


def _chart(summary: object, title: str, wording: Any, unit: int = 1) -> Html | None:
    if not isinstance(summary, Mapping) or not {"min", "max", "mean", "histogram"} <= set(summary):
        return None
    return counted_histogram(summary, title, wording, "document", unit)


def _whole(value: float) -> str:
    """Short, for it stands on an axis: 950, 12k, 3.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and size > 1e3):
            return f"{value / size:.3g}{letter}"
    return f"{round(value):,}"


def _size(value: float) -> str:
    return format_bytes(value).replace(".0 ", " ")
