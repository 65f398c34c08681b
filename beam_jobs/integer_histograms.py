"""Minimum, maximum, mean and histogram of non-negative integers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from beam_jobs.columns import Columns, IntArray

# 0, 1, 2, 4, 5, 8, 11, ...: the integer parts of powers of the root of 2, up to 2**62.
_EDGES = np.array([0, *sorted({math.isqrt(1 << power) for power in range(125)})], np.int64)


_ROWS = 1 << 16  # of a column at a time


def summarize_column(columns: Columns, name: str) -> dict[str, Any]:
    """`summarize` of a column of integers, without its nulls; some rows are in memory at a time."""
    total = number = most = 0
    least = int(_EDGES[-1])
    counts = np.zeros(len(_EDGES), np.int64)
    for chunk in itertools.chain.from_iterable(table[name].chunks for table in columns([name])):
        for start in range(0, len(chunk), _ROWS):
            part = chunk.slice(start, _ROWS).drop_null()
            if not len(part):
                continue
            values = np.asarray(part.to_numpy(zero_copy_only=False), np.int64)
            bins = np.searchsorted(_EDGES, values, side="right") - 1
            counts += np.bincount(bins, minlength=len(_EDGES))
            least, most = min(least, int(values.min())), max(most, int(values.max()))
            total += int(values.sum())
            number += len(values)
    if not number:
        return {}
    filled = np.flatnonzero(counts)
    first, last = int(filled[0]), int(filled[-1])
    return {
        "min": least,
        "max": most,
        "mean": total / number,
        "histogram": {
            "edges": _EDGES[first : last + 2].tolist(),
            "counts": counts[first : last + 1].tolist(),
        },
    }


def summarize(values: IntArray, counts: IntArray | None = None) -> dict[str, Any]:
    """{"min", "max", "mean", "histogram"}; empty without values.

    Bins are half octaves, with integer edges that do not depend on the data, so that the histograms
    of two sets can be added and compared: bin i counts edges[i] <= value < edges[i + 1].

    Args:
        values: [n] int64.
        counts: [n] int64, how often each value occurs, at least 1; None if all occur once.
    """
    if not len(values):
        return {}
    counts = np.ones(len(values), np.int64) if counts is None else counts
    bins = np.searchsorted(_EDGES, values, side="right") - 1
    first, last = int(bins.min()), int(bins.max())
    histogram = np.zeros(last - first + 1, np.int64)
    np.add.at(histogram, bins - first, counts)
    return {
        "min": int(values.min()),
        "max": int(values.max()),
        "mean": int((values * counts).sum()) / int(counts.sum()),
        "histogram": {
            "edges": _EDGES[first : last + 2].tolist(),
            "counts": histogram.tolist(),
        },
    }
