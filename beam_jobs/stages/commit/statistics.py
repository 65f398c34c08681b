"""Statistics over the records of a split."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import Columns
from beam_jobs.counters import summarize_column
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.balance import class_weights
from shard_format import LABELS_FIELD, label_column


def split_statistics(
    columns: Columns,
    counters: pa.Table,
    class_names: Mapping[str, Sequence[str]],
    record_type: RecordType,
    *,
    training: bool,
) -> dict[str, Any]:
    """Class counts; of the training split also class weights, ranges, means and histograms.

    Args:
        columns: Columns of the index of the split, of which some rows are in memory at a time.
        counters: Counters of its shards.
        class_names: Names of the classes by label feature; a record that has several of a feature
            counts for each.
        record_type: The record type, with its columns.
        training: Whether it is the training split: statistics of others must not reach a model.
    """
    several = LABELS_FIELD in record_type.index_columns
    of_labels = {
        name: class_statistics(
            columns, name, names, several=several and name == "label", training=training
        )
        for name, names in class_names.items()
    }
    statistics = of_labels.pop("label")
    if of_labels:
        statistics["labels"] = of_labels
    if training and any(map(len, columns(["key"]))):
        for name in record_type.summarized:
            statistics[name] = summarize_column(columns, name)
        statistics |= record_type.training_statistics(columns, counters)
    return statistics


def class_statistics(
    columns: Columns, feature: str, names: Sequence[str], *, several: bool, training: bool
) -> dict[str, Any]:
    """Class counts of one label; of the training split also class weights.

    Args:
        columns: Columns of the index.
        feature: The label.
        names: Names of its classes.
        several: Whether a record may have several of them.
        training: Whether it is the training split.
    """
    if not names:
        return {}
    column = LABELS_FIELD.name if several else label_column(feature)
    counts = np.zeros(len(names), np.int64)
    for chunk in itertools.chain.from_iterable(one[column].chunks for one in columns([column])):
        labels = (pc.list_flatten(chunk) if several else chunk).drop_null()
        numbers = np.asarray(labels.to_numpy(zero_copy_only=False), np.int64)
        counts += np.bincount(numbers, minlength=len(names))
    statistics: dict[str, Any] = {"class_counts": dict(zip(names, counts.tolist(), strict=True))}
    if training:
        weights = class_weights(counts)
        statistics["class_weights"] = dict(zip(names, weights, strict=True))
    return statistics
