"""Statistics that distinguish a shuffled order from an unshuffled one, and their test.

An order is [records] int64: the number of the record at every position. Records are numbered as the
corpus has them, sorted by class, with equally many of every class: the class of a record is its
number times the number of classes, divided by the number of records.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Order = npt.NDArray[np.int64]
CLASSES = 100
BATCH = 64
BLOCK = 4096  # as long as the reader's window


def classes_of(order: Order) -> Order:
    """[records] int64 in [0, CLASSES): the class at every position."""
    return order * CLASSES // len(order)


def blocks_chi_square(classes: Order, size: int) -> float:
    """How unequal the classes are in runs of `size` positions: Pearson's statistic, summed.

    Expected in every run is size / CLASSES of each class. A shorter rest is ignored.
    """
    blocks = len(classes) // size
    cell = np.repeat(np.arange(blocks), size) * CLASSES + classes[: blocks * size]
    counts = np.bincount(cell, minlength=blocks * CLASSES)
    return float(((counts - size / CLASSES) ** 2).sum() / (size / CLASSES))


def same_neighbours(classes: Order) -> float:
    """Positions whose class is that of the position before; positions less this is the runs."""
    return float((classes[1:] == classes[:-1]).sum())


def rank_correlation(order: Order) -> float:
    """Spearman's, of position and number in the sorted corpus: 1 is sorted."""
    positions = np.arange(len(order))
    return float(np.corrcoef(positions, order)[0, 1])  # both are ranks already


def positions_of(order: Order) -> Order:
    """[records] int64: the position of every record, the inverse of the order."""
    positions = np.empty_like(order)
    positions[order] = np.arange(len(order))
    return positions


def displacement(one: Order, other: Order) -> float:
    """How far a record moves from one epoch to the next, as a share of the epoch; chance is 1/3."""
    return float(np.abs(positions_of(one) - positions_of(other)).mean() / len(one))


def class_coincidence(one: Order, other: Order) -> float:
    """Positions that have the same class in both epochs."""
    return float((classes_of(one) == classes_of(other)).sum())


def together(order: Order, disk: Order) -> float:
    """Share of pairs of close records on disk that meet in a batch; chance is BATCH / records.

    Close are records less than half a chunk of 64 apart.

    Args:
        order: Order of an epoch.
        disk: [records] the records in the order on disk.
    """
    batch = positions_of(order)[disk] // BATCH
    return float(np.mean([(batch[k:] == batch[:-k]).mean() for k in range(1, 32)]))


def distance(order: Order, disk: Order) -> float:
    """The mean distance of neighbors on disk, in positions of the epoch; chance is records / 3."""
    return float(np.abs(np.diff(positions_of(order)[disk])).mean())


# Statistics of classes: functions of one epoch, and of two.
OF_ONE: dict[str, Callable[[Order], float]] = {
    "classes in batches of 64": lambda order: blocks_chi_square(classes_of(order), BATCH),
    "classes in runs of 4,096": lambda order: blocks_chi_square(classes_of(order), BLOCK),
    "neighbours of one class": lambda order: same_neighbours(classes_of(order)),
    "rank correlation": rank_correlation,
}
OF_TWO: dict[str, Callable[[Order, Order], float]] = {
    "same class in the next epoch": class_coincidence,
}
# Statistics of records, of two epochs.
OF_RECORDS: dict[str, Callable[[Order, Order], float]] = {"displacement": displacement}


def two_sample_p(one: list[float], other: list[float]) -> float:
    """The p-value of the Kolmogorov-Smirnov test that both samples have one distribution.

    By the limiting distribution with Stephens' correction for small samples (Use of the
    Kolmogorov-Smirnov, Cramer-von Mises and Related Statistics Without Extensive Tables, JRSS B 32,
    1970), accurate from about 4 values on. Ties make it larger, never smaller.
    """
    values = np.sort(np.concatenate([one, other]))
    below_one = np.searchsorted(np.sort(one), values, side="right") / len(one)
    below_other = np.searchsorted(np.sort(other), values, side="right") / len(other)
    distance = np.abs(below_one - below_other).max()
    root = np.sqrt(len(one) * len(other) / (len(one) + len(other)))
    scaled = (root + 0.12 + 0.11 / root) * distance
    if scaled < 0.2:  # where the series converges slowly, and is 1 to ten digits
        return 1.0
    terms = np.arange(1, 101)
    series = (-1.0) ** (terms - 1) * np.exp(-2 * (terms * scaled) ** 2)
    return float(np.clip(2 * series.sum(), 0, 1))
