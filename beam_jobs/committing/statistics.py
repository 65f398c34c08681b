"""What is counted over the records of a split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.planning.balance import class_weights
from beam_jobs.record_types import RecordType

# 0, 1, 2, 4, 5, 8, 11, ...: the whole parts of powers of the root of 2, up to 2**62.
_EDGES = np.array([0, *sorted({math.isqrt(1 << power) for power in range(125)})], np.int64)


def split_statistics(
    index: pa.Table, class_names: Sequence[str], record_type: RecordType, *, training: bool
) -> dict[str, Any]:
    """Class counts; of the training split also weights, ranges, means and histograms.

    Args:
        index: Of the split.
        class_names: Of the label; a record with several counts for each.
        record_type: Knows its columns.
        training: Whether it is the training split: numbers of others must not reach a model.
    """
    statistics: dict[str, Any] = {}
    if class_names:
        counts = _class_counts(index, len(class_names))
        statistics["class_counts"] = dict(zip(class_names, counts.tolist(), strict=True))
        if training:
            weights = class_weights(counts)
            statistics["class_weights"] = dict(zip(class_names, weights, strict=True))
    if training and len(index):
        for name in record_type.summarized:
            statistics[name] = _summary(index[name])
        statistics |= record_type.training_statistics(index)
    return statistics


def _summary(column: pa.ChunkedArray) -> dict[str, Any]:
    """Least, greatest, mean and histogram of whole numbers, from 0; null counts nowhere.

    Bins are half octaves, with whole edges that do not depend on the data, so the histograms of two
    sets can be added and compared: bin i holds edges[i] <= value < edges[i + 1].
    """
    values = np.asarray(column.drop_null().to_numpy(), np.int64)
    if not len(values):
        return {}
    bins = np.searchsorted(_EDGES, values, side="right") - 1
    first, last = int(bins.min()), int(bins.max())
    counts = np.bincount(bins - first)
    return {
        "min": int(values.min()),
        "max": int(values.max()),
        "mean": int(values.sum()) / len(values),
        "histogram": {
            "edges": _EDGES[first : last + 2].tolist(),
            "counts": counts.tolist(),
        },
    }


def _class_counts(index: pa.Table, classes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    labels = index["label"]
    if "labels" in index.column_names:
        labels = pc.list_flatten(index["labels"])
    return np.bincount(np.asarray(labels.drop_null().to_numpy(), np.int64), minlength=classes)
