"""Class balance of the training split: which records are repeated or left out.

A hash of the record id decides, so the choice depends neither on the seed nor on the order of
reading, and a larger target repeats the same records and more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.labels import label_numbers
from beam_jobs.stages.plan.quantiles import Quantiles, class_bits
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array, mix

_BALANCE_STREAM = np.uint64(0x42414C414E4345)  # "BALANCE"


class Balance(NamedTuple):
    """How often records of the training split occur, by their class and the hash of their id.

    Attributes:
        split: Number of the training split.
        class_names: Names of the classes of the label.
        often: [classes] int64, how often each record of a class occurs at least; 0 is left out.
        below: [classes] uint64; records whose hash is below it occur once more.
        counts: [classes] int64, number of records of each before.
        size: Records of each class after, but for empty ones.
    """

    split: int
    class_names: list[str]
    often: IntArray
    below: UInt64Array
    counts: IntArray
    size: int

    def occurrences(self, table: pa.Table, split_of: npt.NDArray[np.int8]) -> IntArray:
        """[rows] int64, how often each record occurs; 1 in other splits, or unlabelled.

        Args:
            table: Rows of a sidecar.
            split_of: [rows] the split of each.
        """
        rows, labels, hashes = _labelled(table, split_of, self.split, self.class_names)
        times = np.ones(len(table), np.int64)
        times[rows] = self.often[labels] + (hashes < self.below[labels])
        return times

    def with_boundaries(self, hashes: Quantiles) -> Balance:
        """The rule with `below`, once hashes are collected."""
        below = [key[0] if len(key) else 0 for key in hashes.keys()]
        return self._replace(below=np.array(below, np.uint64))

    def leave_out(self, assignment: Assignment, sidecars: Sidecars) -> None:
        """Takes the records that do not occur out of their split."""
        for begin, table in sidecars.without_progress() if self.left_out else ():
            split_of = assignment.of(begin, table)
            split_of[self.occurrences(table, split_of) == 0] = LEFT_OUT

    @property
    def copies(self) -> int:
        """Total number of copies; 0 where records are left out."""
        return max(0, self._change)

    @property
    def left_out(self) -> int:
        """Total number of records that are left out."""
        return max(0, -self._change)

    @property
    def _change(self) -> int:
        present = self.counts[self.counts > 0]
        return int(self.size * len(present) - present.sum())


def balance(
    mode: str, assignment: Assignment, sidecars: Sidecars, class_names: list[str]
) -> Balance | None:
    """Makes the classes of the training split equal in size.

    Args:
        mode: "oversample" repeats records of the smaller classes until they have as many as the
            largest; "undersample" leaves records out until all have as few as the smallest.
        assignment: Changed in place by "undersample".
        sidecars: All staged units.
        class_names: Names of the classes of the label.

    Returns:
        How often records occur; None if there is no labelled one.
    """
    hashes = hashes_by_class(sidecars.records, class_names)
    for own, labels in training_hashes(assignment, sidecars, class_names):
        hashes.count(own, labels)
    rule = choose_balance(mode, hashes, assignment.training, class_names)
    if rule is None:
        return None
    for own, labels in training_hashes(assignment, sidecars, class_names):
        hashes.collect(own, labels)
    rule = rule.with_boundaries(hashes)
    rule.leave_out(assignment, sidecars)
    return rule


def hashes_by_class(records: int, class_names: list[str]) -> Quantiles:
    """Where the hashes of so many records are counted."""
    return Quantiles(class_bits(records, len(class_names)), len(class_names))


def training_hashes(
    assignment: Assignment, sidecars: Sidecars, class_names: list[str]
) -> Iterator[tuple[UInt64Array, IntArray]]:
    """(hashes, classes) of the labelled records of the training split, part by part."""
    for begin, table in sidecars:
        split_of = assignment.of(begin, table)
        _, labels, hashes = _labelled(table, split_of, assignment.training, class_names)
        yield hashes, labels


def choose_balance(
    mode: str, hashes: Quantiles, split: int, class_names: list[str]
) -> Balance | None:
    """How often records occur, once all hashes are counted; see `balance`.

    Returns:
        The rule without the boundaries that `Balance.with_boundaries` adds once hashes near the
        chosen places are collected; None if there is no labelled record.
    """
    classes, counts = len(class_names), hashes.counts
    present = np.flatnonzero(counts)
    if not len(present):
        return None
    size = int(counts.max() if mode == "oversample" else counts[present].min())
    often, more = np.zeros((2, classes), np.int64)
    often[present], more[present] = np.divmod(size, counts[present])
    # A tie of two 64-bit hashes at the boundary of what is taken happens once in 10**12 builds of a
    # million records.
    hashes.choose([np.array([count] if count else [], np.int64) for count in more.tolist()])
    return Balance(split, class_names, often, np.zeros(classes, np.uint64), counts, size)


def _labelled(
    table: pa.Table, split_of: npt.NDArray[np.int8], split: int, class_names: list[str]
) -> tuple[IntArray, IntArray, UInt64Array]:
    """(row, class, hash) of every labelled record of a split among some rows.

    The hash decides which records of a class are repeated or left out first.
    """
    labels = label_numbers(table["label"], class_names)
    rows = np.flatnonzero((split_of == split) & (labels >= 0))
    return rows, labels[rows], mix(uint64(table["id_hash"])[rows] ^ _BALANCE_STREAM)


def balance_notes(balance: Balance | None, *, appended: bool) -> list[str]:
    """What was repeated or left out; of a generation, that classes may fall behind."""
    if balance is None:
        return []
    notes = []
    if balance.left_out:
        notes.append(f"--balance undersample left {balance.left_out:,} training records out")
    if balance.copies:
        often = balance.often + (balance.below > 0)
        notes.append(
            f"--balance oversample added {balance.copies:,} copies; a record occurs up to "
            f"{int(often.max()):,} times"
        )
    lacking = int((balance.counts == 0).sum())
    if appended and lacking:
        notes.append(
            f"--balance oversample makes the classes of this generation equal; {lacking} of "
            f"{len(balance.counts)} classes have no new training record, and fall "
            f"{balance.size:,} records behind until the set is built again"
        )
    return notes


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
