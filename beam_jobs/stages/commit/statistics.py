"""Statistics over the records of a split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import int64
from beam_jobs.integer_histograms import summarize
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.balance import class_weights


def split_statistics(
    index: pa.Table,
    counters: pa.Table,
    class_names: Sequence[str],
    record_type: RecordType,
    *,
    training: bool,
) -> dict[str, Any]:
    """Class counts; of the training split also class weights, ranges, means and histograms.

    Args:
        index: Index of the split.
        counters: Counters of its shards.
        class_names: Names of the classes; a record with several labels counts for each.
        record_type: The record type, with its columns.
        training: Whether it is the training split: statistics of others must not reach a model.
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
            statistics[name] = summarize(int64(index[name].drop_null()))
        statistics |= record_type.training_statistics(index, counters)
    return statistics


def _class_counts(index: pa.Table, classes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    labels = index["label"]
    if "labels" in index.column_names:
        labels = pc.list_flatten(index["labels"])
    return np.bincount(np.asarray(labels.drop_null().to_numpy(), np.int64), minlength=classes)
