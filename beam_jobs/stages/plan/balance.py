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
        class_names: Names of the classes of the label.

    Returns:
        What is repeated, and how many records are left out.
    """
    records, labels, hashes = _training(assignment, sidecars, class_names)
    if not len(records):
        return NO_REPEATS, 0
    if mode == "undersample":
        order, rank, counts = _ranked(labels, hashes, len(class_names))
        out = records[order][rank >= counts[counts > 0].min()]
        assignment.split_of[out] = LEFT_OUT
        return NO_REPEATS, len(out)
    extra = extra_copies(labels, hashes, len(class_names))
    repeated = np.flatnonzero(extra)
    return Repeats(records[repeated], extra[repeated]), 0


def extra_copies(labels: IntArray, hashes: UInt64Array, classes: int) -> IntArray:
    """[n] int64: how many copies of each record make all classes as large as the largest.

    Args:
        labels: [n] int64, the class of each record, in [0, classes).
        hashes: [n] uint64, see `balance_hashes`.
        classes: How many there are.
    """
    order, rank, counts = _ranked(labels, hashes, classes)
    size, target = counts[labels[order]], int(counts.max())
    extra = np.zeros(len(labels), np.int64)
    extra[order] = target // size + (rank < target % size) - 1
    return extra


def balance_hashes(id_hashes: UInt64Array) -> UInt64Array:
    """What decides which records of a class are repeated or left out first."""
    return mix(id_hashes ^ _BALANCE_STREAM)


def _ranked(
    labels: IntArray, hashes: UInt64Array, classes: int
) -> tuple[IntArray, IntArray, IntArray]:
    """The order of records by class, then by hash; the rank of each in its class; class counts."""
    # A tie of two 64-bit hashes at the boundary of what is taken happens once in 10**12 builds of a
    # million records.
    order = np.lexsort((hashes, labels))
    counts = np.bincount(labels, minlength=classes)
    begins = np.cumsum(counts) - counts
    return order, np.arange(len(order)) - begins[labels[order]], counts


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


def generation_note(
    class_names: list[str], assignment: Assignment, sidecars: Sidecars
) -> list[str]:
    """Of an appended generation: that classes without a new record fall behind the others."""
    labels = _training(assignment, sidecars, class_names)[1]
    counts = np.bincount(labels, minlength=len(class_names))
    lacking = int((counts == 0).sum())
    if not counts.max(initial=0) or not lacking:
        return []
    return [
        f"--balance oversample makes the classes of this generation equal; {lacking} of "
        f"{len(counts)} classes have no new training record, and fall {counts.max():,} records "
        "behind until the set is built again"
    ]


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
        hashes.append(balance_hashes(uint64(table["id_hash"])[inside]))
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
