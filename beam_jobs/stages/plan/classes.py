"""Class names, and labels as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray
from beam_jobs.corpus.names import LABEL_SEPARATOR


def names_in(labels: pa.ChunkedArray) -> set[str]:
    """Every class that occurs; a record with several has them joined."""
    found: set[str] = set()
    for label in pc.unique(labels).drop_null().to_pylist():
        found.update(label.split(LABEL_SEPARATOR) if label else ())
    return found


def sorted_names(names: Iterable[str]) -> list[str]:
    """By name, or by number where all are whole numbers: class "10" of MNIST's kin is not third."""
    names = sorted(names)
    if all(_is_number(name) for name in names):
        # Without leading zeros the longer one is the larger; int() refuses 4,301 digits.
        return sorted(names, key=lambda name: (len(name), name))
    return names


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")


def label_numbers(labels: pa.ChunkedArray, class_names: list[str]) -> IntArray:
    """[n] int64: each record's only class; -1 for none."""
    numbers = pc.index_in(labels, value_set=pa.array(class_names, pa.string()))
    return np.asarray(pc.fill_null(numbers, -1).to_numpy(), np.int64)


def label_lists(labels: pa.ChunkedArray, class_names: list[str]) -> list[list[int]]:
    """Each record's classes as ascending numbers."""
    number_of = {name: number for number, name in enumerate(class_names)}
    return [
        sorted(number_of[name] for name in label.split(LABEL_SEPARATOR)) if label else []
        for label in labels.to_pylist()
    ]
