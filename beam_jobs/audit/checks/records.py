"""Records that are damaged, or far from all others, or from those of their class."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet, Float64Array
from beam_jobs.audit.checks.base import Check, below, flagged
from beam_jobs.columns import run_starts
from beam_jobs.images.measures import ImageMeasures

_NORMAL = 1.4826  # standard deviation of a normal distribution, by its median absolute deviation
_LEAST_SPREAD = 0.5  # octaves: where most sizes are equal, a little less is not odd
_LEAST_RECORDS = 20  # of a class of which one can say what is usual


def _damaged(audited: AuditedSet, threshold: float) -> pa.Table | None:
    if not audited.was_read:
        return None
    rows = np.flatnonzero(audited.damaged())
    return flagged(rows, np.full(len(rows), np.nan))


def _sizes(audited: AuditedSet) -> Float64Array | None:
    """[records] the square root of the number of pixels, or the number of characters."""
    if (chars := audited.numbers("chars")) is not None:
        return chars
    for prefix in ("source_", "", "stored_"):
        width, height = audited.numbers(f"{prefix}width"), audited.numbers(f"{prefix}height")
        if width is not None and height is not None:
            return np.sqrt(width * height)
    return None


def _odd_sizes(audited: AuditedSet, threshold: float) -> pa.Table | None:
    sizes = _sizes(audited)
    if sizes is None or np.isnan(sizes).all():
        return None
    with np.errstate(divide="ignore"):
        factors = np.abs(np.log2(sizes) - np.log2(np.nanmedian(sizes)))
    # Texts differ in length by factors that would be odd among images.
    distance = factors / max(_NORMAL * float(np.nanmedian(factors)), _LEAST_SPREAD)
    rows = np.flatnonzero(distance > threshold)
    rows = rows[np.argsort(-distance[rows], kind="stable")]
    return flagged(rows, distance[rows], other=[f"{size:.6g}" for size in sizes[rows].tolist()])


def _odd_shapes(audited: AuditedSet, threshold: float) -> pa.Table | None:
    aspect = audited.numbers("aspect")
    return None if aspect is None else below(np.minimum(aspect, 1 / aspect), threshold)


def _outliers(audited: AuditedSet, threshold: float) -> pa.Table | None:
    """The column in which a record is farthest from its class, in deviations on its own side."""
    # Shapes have a check of their own: most images of a class have one of two.
    names = [name for name in ImageMeasures._fields if name != "aspect"] + ["chars", "words"]
    kept = {one.name for one in audited.finished.kept_columns}
    names += [
        name
        for name, kind in audited.scalars().items()
        if name in kept and name not in (*names, "aspect") and _is_number(kind)
    ]
    groups = audited.labels()
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(run_starts(groups[order])).tolist() if len(order) else []
    classes = [order[begin:end] for begin, end in zip(starts, [*starts[1:], None], strict=True)]
    classes = [rows for rows in classes if len(rows) >= _LEAST_RECORDS]
    farthest, which = np.zeros(audited.records), np.zeros(audited.records, np.int64)
    columns = [(name, values) for name in names if (values := audited.numbers(name)) is not None]
    if not (classes and columns):
        return None
    for number, (_, values) in enumerate(columns):
        for rows in classes:
            distance = _deviations(values[rows])
            more = distance > farthest[rows]
            farthest[rows[more]], which[rows[more]] = distance[more], number
    rows = np.flatnonzero(farthest > threshold)
    rows = rows[np.argsort(-farthest[rows], kind="stable")]
    return flagged(rows, farthest[rows], column=[columns[one][0] for one in which[rows].tolist()])


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _deviations(values: Float64Array) -> Float64Array:
    """[n] distance from the median by the spread on the same side; 0 where more than half agree.

    The two sides of a skewed distribution, such as of lengths, are measured apart (Rosenmai, Using
    the median absolute deviation to find outliers, 2013).
    """
    result = np.zeros(len(values))
    known = ~np.isnan(values)
    if known.sum() < _LEAST_RECORDS:
        return result
    away = values - np.median(values[known])
    for side in (known & (away >= 0), known & (away <= 0)):
        spread = _NORMAL * float(np.median(np.abs(away[side])))
        if spread > 0:
            result[side] = np.maximum(result[side], np.abs(away[side]) / spread)
    return result


DAMAGED = Check("Damaged records", "They cannot be read or decoded.", 0, _damaged)
ODD_SIZE = Check(
    "Odd sizes",
    "The side of an image (root of its pixels) or the length of a text in characters is more than "
    "{0:g} deviations from the median, on a scale of logarithms.",
    5,
    _odd_sizes,
)
# As CleanVision 0.3.7 has it.
ODD_SHAPE = Check(
    "Odd shapes", "The shorter side is less than {0:g} of the longer one.", 0.35, _odd_shapes
)
OUTLIER = Check(
    "Outliers of a class",
    "A measure or a kept column is more than {0:g} deviations from the median of the class; of a "
    "set without classes, from that of all records.",
    8,
    _outliers,
)
