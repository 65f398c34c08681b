"""Statistics over the records of a split, summed over its index part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.columns import Columns
from beam_jobs.counters import Sums
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.balance import class_weights
from shard_format import LABELS_FIELD, label_column


class SplitSums(Sums):
    """What the statistics of a split come from: class counts; of the training split also others.

    Args:
        class_names: Names of the classes by label feature; a record that has several of a feature
            counts for each.
        record_type: The record type, with its columns.
        training: Whether it is the training split: statistics of others must not reach a model.
    """

    def __init__(
        self, class_names: Mapping[str, Sequence[str]], record_type: RecordType, *, training: bool
    ) -> None:
        several = LABELS_FIELD in record_type.index_columns
        self._labels = {
            name: ClassSums(name, names, several=several and name == "label", training=training)
            for name, names in class_names.items()
        }
        self._further = record_type.training_sums() if training else []
        self._record_type = record_type
        self._records = 0

    @override
    def add(self, rows: pa.Table) -> None:
        self._records += len(rows)
        for sums in self._all():
            sums.add(rows)

    @override
    def values(self) -> list[Any]:
        return [self._records, *(sums.values() for sums in self._all())]

    @override
    def merge(self, values: list[Any]) -> None:
        self._records += values[0]
        for sums, own in zip(self._all(), values[1:], strict=True):
            sums.merge(own)

    def _all(self) -> list[Sums]:
        return [*self._labels.values(), *self._further]

    @override
    def statistics(self) -> dict[str, Any]:
        """Class counts; of the training split also class weights, ranges, means and histograms."""
        of_labels = {name: sums.statistics() for name, sums in self._labels.items()}
        statistics = of_labels.pop("label")
        if of_labels:
            statistics["labels"] = of_labels
        if self._records:
            for sums in self._further:
                statistics |= sums.statistics()
        return statistics

    def with_counters(self, counters: pa.Table) -> dict[str, Any]:
        """The statistics of the training split, with what its shards have counted."""
        further = self._record_type.training_statistics(counters) if self._records else {}
        return self.statistics() | further


class ClassSums(Sums):
    """Class counts of one label; of the training split also class weights.

    Args:
        feature: The label.
        names: Names of its classes.
        several: Whether a record may have several of them.
        training: Whether it is the training split.
    """

    def __init__(
        self, feature: str, names: Sequence[str], *, several: bool, training: bool
    ) -> None:
        self._column = LABELS_FIELD.name if several else label_column(feature)
        self._several = several
        self._names = names
        self._training = training
        self._counts = np.zeros(len(names), np.int64)

    @override
    def add(self, rows: pa.Table) -> None:
        for chunk in rows[self._column].chunks if self._names else ():
            labels = (pc.list_flatten(chunk) if self._several else chunk).drop_null()
            numbers = np.asarray(labels.to_numpy(zero_copy_only=False), np.int64)
            self._counts += np.bincount(numbers, minlength=len(self._names))

    @override
    def values(self) -> list[int]:
        return list(self._counts.tolist())

    @override
    def merge(self, values: list[int]) -> None:
        self._counts += np.array(values, np.int64)

    @override
    def statistics(self) -> dict[str, Any]:
        if not self._names:
            return {}
        counts = zip(self._names, self._counts.tolist(), strict=True)
        statistics: dict[str, Any] = {"class_counts": dict(counts)}
        if self._training:
            weights = class_weights(self._counts)
            statistics["class_weights"] = dict(zip(self._names, weights, strict=True))
        return statistics


def class_statistics(
    columns: Columns, feature: str, names: Sequence[str], *, several: bool, training: bool
) -> dict[str, Any]:
    """The result of `ClassSums`.

    Args:
        columns: Columns of the index.
        feature: The label.
        names: Names of its classes.
        several: Whether a record may have several of them.
        training: Whether it is the training split.
    """
    sums = ClassSums(feature, names, several=several, training=training)
    column = LABELS_FIELD.name if several else label_column(feature)
    for table in columns([column]) if names else ():
        sums.add(table)
    return sums.statistics()
