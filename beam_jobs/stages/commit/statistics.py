"""Statistics over the records of a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.integer_histograms import summarize_column
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.balance import class_weights
from shard_format import LABELS_FIELD, label_column


def split_statistics(
    index: pa.Table,
    counters: pa.Table,
    class_names: Mapping[str, Sequence[str]],
    record_type: RecordType,
    *,
    training: bool,
) -> dict[str, Any]:
    """Class counts; of the training split also class weights, ranges, means and histograms.

    Args:
        index: Index of the split.
        counters: Counters of its shards.
        class_names: Names of the classes by label feature; a record that has several of a feature
            counts for each.
        record_type: The record type, with its columns.
        training: Whether it is the training split: statistics of others must not reach a model.
    """
    of_labels = {
        name: class_statistics(index, name, names, training=training)
        for name, names in class_names.items()
    }
    statistics = of_labels.pop("label")
    if of_labels:
        statistics["labels"] = of_labels
    if training and len(index):
        for name in record_type.summarized:
            statistics[name] = summarize_column(index[name])
        statistics |= record_type.training_statistics(index, counters)
    return statistics


def class_statistics(
    index: pa.Table, feature: str, names: Sequence[str], *, training: bool
) -> dict[str, Any]:
    """Class counts of one label; of the training split also class weights."""
    if not names:
        return {}
    counts = _class_counts(index, feature, len(names))
    statistics: dict[str, Any] = {"class_counts": dict(zip(names, counts.tolist(), strict=True))}
    if training:
        weights = class_weights(counts)
        statistics["class_weights"] = dict(zip(names, weights, strict=True))
    return statistics


def _class_counts(
    index: pa.Table, feature: str, classes: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    several = feature == "label" and LABELS_FIELD.name in index.column_names
    counts = np.zeros(classes, np.int64)
    for chunk in index[LABELS_FIELD.name if several else label_column(feature)].chunks:
        labels = (pc.list_flatten(chunk) if several else chunk).drop_null()
        numbers = np.asarray(labels.to_numpy(zero_copy_only=False), np.int64)
        counts += np.bincount(numbers, minlength=classes)
    return counts
