"""Class names, labels as numbers, and the labels of a record in its example and in the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray
from beam_jobs.corpus.record import LABEL_SEPARATOR
from beam_jobs.record_types.base import WEIGHT
from shard_format import (
    LABELS_FIELD,
    Feature,
    Schema,
    encode_columns,
    encode_features,
    label_column,
)


def class_counts(labels: pa.ChunkedArray) -> Counter[str]:
    """The records of every class in a column; several of one are joined by a separator."""
    names: Counter[str] = Counter()
    for row in pc.value_counts(labels).to_pylist():
        for name in row["values"].split(LABEL_SEPARATOR) if row["values"] else ():
            names[name] += row["counts"]
    return names


def sorted_names(names: Iterable[str]) -> list[str]:
    """In alphabetical order, or in numerical order if all are integers ("10" after "9")."""
    names = sorted(names)
    if all(_is_number(name) for name in names):
        # Without leading zeros the longer one is the larger; int() rejects 4,301 digits.
        return sorted(names, key=lambda name: (len(name), name))
    return names


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")


# The number of records of every class, by label feature.
ClassCounts = dict[str, Counter[str]]


def name_classes(
    staged: ClassCounts, kept: ClassCounts, *, top: str | None
) -> tuple[dict[str, list[str]], list[str]]:
    """The classes of the kept records, and a note if a class has lost all of its records.

    Args:
        staged: Numbers of the records that are planned.
        kept: Numbers of those that are left.
        top: The value of --top, which leaves out records that are no duplicates too.
    """
    why = "duplicates of other classes" + (", or not in the top" if top is not None else "")
    notes = []
    for name in staged:
        lost = sorted_names(staged[name].keys() - kept[name].keys())
        if lost:
            shown = ", ".join(repr(one) for one in lost[:5])
            of_label = "" if name == "label" else f" of {name!r}"
            notes.append(
                f"{len(lost)} classes{of_label} have no record left, since all of theirs are "
                f"{why}: {shown}{', ...' if len(lost) > 5 else ''}"
            )
    return {name: sorted_names(names) for name, names in kept.items()}, notes


def strata_of(schema: Schema, class_names: Sequence[str], counts: Counter[str]) -> list[str]:
    """The classes of the main label; a record of several counts for the first of them.

    With several labels a record counts for the rarest of its classes, as in Sechidis et al., On the
    Stratification of Multi-Label Data (ECML PKDD 2011, algorithm 1), and in the repeat factors of
    Gupta et al., LVIS (CVPR 2019, appendix B.2). With one label the order stays.
    """
    if not any(feature.shape for feature in schema.labels):
        return list(class_names)
    return sorted(class_names, key=lambda name: (counts[name], name))


def label_numbers(labels: pa.ChunkedArray, class_names: Sequence[str]) -> IntArray:
    """[n] int64: the class of each record; the first of several in `class_names`; -1 for none."""
    distinct = labels.combine_chunks().dictionary_encode()
    number_of = {name: number for number, name in enumerate(class_names)}
    several = (label.split(LABEL_SEPARATOR) for label in distinct.dictionary.to_pylist())
    numbers = [
        min((number_of[one] for one in own if one in number_of), default=-1) for own in several
    ]
    at = pc.fill_null(distinct.indices, len(numbers)).to_numpy()
    return np.array([*numbers, -1], np.int64)[at]


def label_lists(labels: pa.ChunkedArray, class_names: list[str]) -> list[list[int]]:
    """The classes of each record as ascending numbers."""
    number_of = {name: number for number, name in enumerate(class_names)}
    return [
        sorted(number_of[name] for name in label.split(LABEL_SEPARATOR)) if label else []
        for label in labels.to_pylist()
    ]


def with_class_names(schema: Schema, class_names: Mapping[str, Sequence[str]]) -> Schema:
    """A schema whose labels have their classes."""
    for feature in schema.labels:
        schema = schema.with_class_names(feature.name, tuple(class_names[feature.name]))
    return schema


class Labels:
    """All labels of the records of a shard, and their weights.

    Args:
        table: The rows of the shard, with the labels as staged.
        schema: Which labels a record has.
        class_names: By feature; a label is an index into these.
        weights: [rows] float32, of --sample-weight; None without it.
    """

    def __init__(
        self,
        table: pa.Table,
        schema: Schema,
        class_names: Mapping[str, list[str]],
        weights: pa.FloatArray | None = None,
    ) -> None:
        self._records = len(table)
        self._features: list[_Values | _Weights] = [
            _Values(table[label_column(feature.name)], feature, class_names[feature.name])
            for feature in schema.labels
        ]
        self._features += [] if weights is None else [_Weights(weights)]

    def entries(self, start: int, end: int) -> list[bytes]:
        """The encoded features of the records in [start, end); b"" where there is none."""
        entries = [b""] * (end - start)
        for feature in self._features:
            own = feature.entries(start, end)
            entries = [before + entry for before, entry in zip(entries, own, strict=True)]
        return entries

    def columns(self) -> dict[str, Any]:
        """The columns of the index."""
        columns: dict[str, Any] = {"label": pa.nulls(self._records, pa.int64())}
        for feature in self._features:
            columns |= feature.columns()
        return columns


class _Values:
    """One label of the records of a shard.

    Args:
        names: [n] string, as staged.
        feature: Whether a record has one or several.
        class_names: A label is an index into these.
    """

    def __init__(self, names: pa.ChunkedArray, feature: Feature, class_names: list[str]) -> None:
        self._column = label_column(feature.name)
        self._several = bool(feature.shape)
        self._values: list[Any]
        self._encoded: dict[Any, bytes] = {None: b""}
        if self._several:
            self._values = [tuple(numbers) for numbers in label_lists(names, class_names)]
        else:
            numbers = label_numbers(names, class_names).tolist()
            self._values = [None if number < 0 else number for number in numbers]
        # Encoded once per class, not once per record.
        for value in set(self._values) - {None}:
            self._encoded[value] = encode_features([feature], {feature.name: value})

    def entries(self, start: int, end: int) -> list[bytes]:
        """The encoded feature of the records in [start, end); b"" where there is none."""
        return [self._encoded[value] for value in self._values[start:end]]

    def columns(self) -> dict[str, Any]:
        """The columns of the index."""
        if self._several:
            return {LABELS_FIELD.name: pa.array(self._values, LABELS_FIELD.type)}
        return {self._column: pa.array(self._values, pa.int64())}


class _Weights:
    """The weights of the records of a shard, a feature that is known as late as labels are.

    Args:
        values: [n] float32.
    """

    def __init__(self, values: pa.FloatArray) -> None:
        self._values = values

    def entries(self, start: int, end: int) -> list[bytes]:
        """The encoded feature of the records in [start, end)."""
        values = {WEIGHT.name: self._values.slice(start, end - start).to_pylist()}
        return list(encode_columns([WEIGHT], values, end - start).to_pylist())

    def columns(self) -> dict[str, Any]:
        """The column of the index."""
        return {WEIGHT.name: self._values}
