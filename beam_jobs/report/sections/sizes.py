"""How large records are: pixels and bytes of images, characters, words and tokens of documents.

The index has the sizes of every image. The lengths of documents are in the manifest, as histograms
of the training split: a packed sequence has no meaningful length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.report.charts import Histogram, counted_histogram, histogram
from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content
from foundation.wording import counted, format_bytes

# Records are in shuffled order, so the first ones are a fair sample; beyond this no histogram
# changes any more that a person could see.
_MOST_ROWS = 2_000_000

_SIDES = (
    ("width", "Width as stored, pixels"),
    ("height", "Height as stored, pixels"),
    ("source_width", "Width in the source, pixels"),
    ("source_height", "Height in the source, pixels"),
)
_BYTES = (("length", "Size of a record"), ("source_bytes", "Size of a source file"))


def content(reported: ReportedSet) -> Content:
    """Histograms, and a note over which records."""
    charts, over = _of_documents(reported) if reported.holds_text else _of_images(reported)
    shown = [chart for chart in charts if chart is not None]
    return {"charts": shown, "over": over} if shown else "There are no records to measure."


def _of_images(reported: ReportedSet) -> tuple[list[Histogram | None], str]:
    columns = {name: _column(reported, name) for name, _ in (*_SIDES, *_BYTES)}
    charts = [histogram(columns[name], title, _exact) for name, title in _SIDES]
    for prefix, title in (("", "as stored"), ("source_", "in the source")):
        width, height = columns[f"{prefix}width"], columns[f"{prefix}height"]
        if len(width) == len(height):
            ratio = width / np.maximum(height, 1)
            charts.append(histogram(ratio, f"Aspect ratio {title}, width over height", _ratio))
    for name, title in _BYTES:
        unit = 1 << 20 if columns[name].max(initial=0) >= 4 << 20 else 1 << 10
        charts.append(histogram(columns[name], title, _size, unit))
    total = reported.records
    if total > _MOST_ROWS:
        return charts, f"Over the first {_MOST_ROWS:,} of {total:,} records in shuffled order."
    return charts, f"Over all {total:,} records." if total != 1 else "Over one record."


def _of_documents(reported: ReportedSet) -> tuple[list[Histogram | None], str]:
    for split, info in reported.manifest.splits.items():
        charts = [
            counted_histogram(info.statistics.get(name), title, wording, unit)
            for name, title, wording, unit in _LENGTHS
        ]
        if any(charts):
            of = "documents" if reported.packed else counted(info.records, "record")
            return charts, f"Over the {of} of split {split}."
    return [], ""


def _column(reported: ReportedSet, name: str) -> npt.NDArray[np.int64]:
    """A column of the index over all splits, each with its share of the rows that are read."""
    share = min(1.0, _MOST_ROWS / max(1, reported.records))
    parts = [np.zeros(0, np.int64)]
    for split in reported.manifest.splits:
        index = reported.index(split)
        if name in index.column_names:
            rows = index[name].slice(0, round(len(index) * share))
            parts.append(np.asarray(rows.drop_null(), np.int64))
    return np.concatenate(parts)


def _exact(value: float) -> str:
    return f"{round(value):,}"


def _short(value: float) -> str:
    """Short, for the labels of an axis: 950, 12k, 3.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and size > 1e3):
            return f"{value / size:.3g}{letter}"
    return _exact(value)


def _size(value: float) -> str:
    return format_bytes(value).replace(".0 ", " ")


def _ratio(value: float) -> str:
    return f"{value:.3g}"


_LENGTHS = (
    ("chars", "Characters of a document", _short, 1),
    ("words", "Words of a document", _short, 1),
    ("tokens", "Tokens of a document", _short, 1),
    ("source_bytes", "Size of a document in the source", _size, 1 << 10),
)
