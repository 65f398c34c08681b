"""How pictures are spread over width, height, aspect ratio and bytes, from the index alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.report.charts import histogram
from beam_jobs.report.markup import Html, element, escape, note
from beam_jobs.report.sections.base import Facts
from shard_format.wording import counted, format_bytes

# Records stand in shuffled order, so the first ones are a fair sample; beyond this no histogram
# changes any more that a person could see.
_MOST_ROWS = 2_000_000

_COLUMNS = (
    ("width", "Width as stored, pixels"),
    ("height", "Height as stored, pixels"),
    ("source_width", "Width in the source, pixels"),
    ("source_height", "Height in the source, pixels"),
)
_SIZES = (("length", "Size of a record"), ("source_bytes", "Size of a source file"))


def content(facts: Facts) -> Html:
    """Histograms over the records of all splits."""
    total = sum(split.records for split in facts.manifest.splits.values())
    charts = [histogram(_values(facts, name), title, _whole) for name, title in _COLUMNS]
    for prefix, title in (("", "as stored"), ("source_", "in the source")):
        width, height = _values(facts, f"{prefix}width"), _values(facts, f"{prefix}height")
        if len(width) == len(height):
            ratio = width / np.maximum(height, 1)
            charts.append(histogram(ratio, f"Aspect ratio {title}, width over height", _ratio))
    for name, title in _SIZES:
        values = _values(facts, name)
        unit = 1 << 20 if len(values) and values.max() >= 4 << 20 else 1 << 10
        charts.append(histogram(values, title, _size, unit))
    made = [chart for chart in charts if chart is not None]
    if not made:
        return note("There are no records to measure.")
    over = f"all {counted(total, 'record')}" if total != 1 else "one record"
    if total > _MOST_ROWS:
        over = f"the first {_MOST_ROWS:,} of {total:,} records in shuffled order"
    return escape((note(f"Over {over}."), element("div", made, class_="charts")))


def _values(facts: Facts, column: str) -> npt.NDArray[np.int64]:
    """A column of the index over all splits, each with its share of the rows that are looked at."""
    total = sum(split.records for split in facts.manifest.splits.values())
    parts = [np.zeros(0, np.int64)]
    for split in facts.manifest.splits:
        index = facts.index(split)
        if column in index.column_names:
            share = min(1.0, _MOST_ROWS / max(1, total))
            rows = index[column].slice(0, round(len(index) * share))
            parts.append(np.asarray(rows.drop_null(), np.int64))
    return np.concatenate(parts)


def _whole(value: float) -> str:
    return f"{round(value):,}"


def _size(value: float) -> str:
    return format_bytes(value).replace(".0 ", " ")


def _ratio(value: float) -> str:
    return f"{value:.3g}"
