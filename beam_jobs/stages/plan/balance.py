"""Class balance of the training split: which records are repeated or left out.

A hash of the record id decides, so the choice depends neither on the seed nor on the order of
reading, and a larger target repeats the same records and more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.labels import label_numbers
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array, mix

_BALANCE_STREAM = np.uint64(0x42414C414E4345)  # "BALANCE"


class Repeats(NamedTuple):
    """Records of the training split that occur more than once.

    Attributes:
        records: [n] int64, numbers of records, ascending.
        extra: [n] int64, number of additional copies of each, at least 1.
    """

    records: IntArray
    extra: IntArray

    @property
    def total(self) -> int:
        """Total number of copies."""
        return int(self.extra.sum())


NO_REPEATS = Repeats(np.zeros(0, np.int64), np.zeros(0, np.int64))


def balance(
    mode: str, assignment: Assignment, sidecars: Sidecars, class_names: list[str]
) -> tuple[Repeats, int]:
    """Makes the classes of the training split equal in size.

    Args:
        mode: "oversample" repeats records of the smaller classes until they have as many as the
            largest; "undersample" leaves records out until all have as few as the smallest.
        assignment: Changed in place by "undersample".
        sidecars: All staged units.
        class_names: Of the label.

    Returns:
        What is repeated, and how many records are left out.
    """
    records, labels, hashes = _training(assignment, sidecars, class_names)
    # By class, then by hash. A tie of two 64-bit hashes at the boundary of what is taken happens
    # once in 10**12 builds of a million records.
    order = np.lexsort((hashes, labels))
    counts = np.bincount(labels, minlength=len(class_names))
    begins = np.cumsum(counts) - counts
    rank = np.arange(len(order)) - begins[labels[order]]
    present = counts[counts > 0]
    if not len(present):
        return NO_REPEATS, 0
    if mode == "undersample":
        out = records[order][rank >= present.min()]
        assignment.split_of[out] = LEFT_OUT
        return NO_REPEATS, len(out)
    size = np.maximum(counts, 1)[labels[order]]
    target = int(present.max())
    copies = target // size + (rank < target % size)
    repeated = copies > 1
    chosen, extra = records[order][repeated], copies[repeated] - 1
    by_record = np.argsort(chosen)
    return Repeats(chosen[by_record], extra[by_record]), 0


def balance_notes(repeats: Repeats, undersampled: int) -> list[str]:
    """What was repeated or left out."""
    if undersampled:
        return [f"--balance undersample left {undersampled:,} training records out"]
    if repeats.total:
        most = int(repeats.extra.max()) + 1
        return [
            f"--balance oversample added {repeats.total:,} copies; a record occurs up to {most:,} "
            "times"
        ]
    return []


def _training(
    assignment: Assignment, sidecars: Sidecars, class_names: list[str]
) -> tuple[IntArray, IntArray, UInt64Array]:
    """(number, class, hash) of every labelled record of the training split."""
    # An empty part first: a corpus without records has no other one to concatenate.
    records: list[IntArray] = [np.zeros(0, np.int64)]
    labels: list[IntArray] = [np.zeros(0, np.int64)]
    hashes: list[UInt64Array] = [np.zeros(0, np.uint64)]
    for unit, table, split_of in assignment.units(sidecars):
        label = label_numbers(table["label"], class_names)
        inside = np.flatnonzero((split_of == assignment.training) & (label >= 0))
        records.append(inside + sidecars.begins[unit])
        labels.append(label[inside])
        hashes.append(mix(uint64(table["id_hash"])[inside] ^ _BALANCE_STREAM))
    return np.concatenate(records), np.concatenate(labels), np.concatenate(hashes)


def copy_keys(keys: UInt64Array, copy: IntArray) -> UInt64Array:
    """The shuffle key of each copy, so that copies are scattered over the split.

    Args:
        keys: [n] uint64 of the records.
        copy: [n] int64, the number of the copy; 0 is the record itself and keeps its key.
    """
    scattered = mix(keys ^ mix(copy.astype(np.uint64)))
    return np.where(copy == 0, keys, scattered)


def class_weights(counts: npt.NDArray[np.int64]) -> list[float]:
    """N / (k * n_c) per class, so that all classes weigh the same in a loss; 0 for an empty one.

    King, Zeng: Logistic Regression in Rare Events Data, Political Analysis 9 (2001), section 4.2,
    in the normalised form that scikit-learn calls "balanced".

    Args:
        counts: [k] int64, records of each class.
    """
    present = int((counts > 0).sum())
    total = int(counts.sum())
    return [total / (present * int(count)) if count else 0.0 for count in counts.tolist()]
