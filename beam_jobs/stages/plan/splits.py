"""Which split a record belongs to, decided on whole columns.

The position of a record in [0, 1) is a hash of what must stay together: its own id, its group, or
the cluster it is kept with. So it depends on nothing else in the corpus, and records that are added
later move no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import BoolArray, IntArray, int64, run_starts, uint64
from beam_jobs.dedup.clusters import Clusters, components
from beam_jobs.stages.labels import label_numbers
from beam_jobs.stages.plan.quantiles import Quantiles, class_bits
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars
from shard_format import InputError, split_positions
from shard_format.keys import UInt64Array

# The order in which given splits are written.
_GIVEN_ORDER = ("train", "validation", "test")


class Identity:
    """What must stay in one split, as 64 bits per record."""

    def __init__(self, sidecars: Sidecars, clusters: Clusters | None) -> None:
        # Only clusters that are kept as a whole hold records together.
        self._from: UInt64Array = np.zeros(0, np.uint64)
        self._to: UInt64Array = self._from
        if clusters is None or not len(clusters.members):
            return
        records = int64(clusters.members["record"])
        own = _own_identity(sidecars.take(records, ["id_hash", "group"]))
        values, nodes = np.unique(own, return_inverse=True)
        ids = clusters.members["kept_id"]
        same = np.flatnonzero(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy())
        pairs = np.stack([nodes[same], nodes[same + 1]], axis=1)
        self._from, self._to = values, values[components(len(values), pairs)]

    def is_joined(self, table: pa.Table) -> BoolArray:
        """[n] bool, the rows of a sidecar that may have to stay with others."""
        own = _own_identity(table)
        return pc.is_valid(table["group"]).to_numpy() | np.isin(own, self._from)

    def __call__(self, table: pa.Table) -> UInt64Array:
        """[n] uint64 for the rows of a sidecar."""
        own = _own_identity(table)
        if len(self._from):
            at = np.minimum(np.searchsorted(self._from, own), len(self._from) - 1)
            own = np.where(self._from[at] == own, self._to[at], own)
        return own


def _own_identity(table: pa.Table) -> UInt64Array:
    return uint64(pc.coalesce(table["group"].cast(pa.uint64()), table["id_hash"]))


def by_fraction(
    assignment: Assignment, sidecars: Sidecars, identity: Identity, fractions: dict[str, float]
) -> None:
    """Assigns each record the split whose part of [0, 1) it falls into."""
    assignment.names = list(fractions)
    thresholds = _thresholds(fractions)
    for begin, table in sidecars:
        split_of = assignment.of(begin, table)
        chosen = np.searchsorted(thresholds, split_positions(identity(table)), side="right")
        split_of[:] = np.where(split_of == LEFT_OUT, LEFT_OUT, chosen)


def _thresholds(fractions: dict[str, float]) -> npt.NDArray[np.float64]:
    return np.cumsum(list(fractions.values()))[:-1]


def named_splits(sidecars: Sidecars) -> set[str | None]:
    """The splits that folders or columns name; None is among them if a record has none."""
    return {name for _, table in sidecars for name in pc.unique(table["split"]).to_pylist()}


def given_names(named: set[str | None]) -> list[str]:
    """The names of given splits, in the order in which they are written."""
    return [name for name in _GIVEN_ORDER if name in named]


def by_corpus(
    assignment: Assignment, sidecars: Sidecars, named: set[str | None]
) -> tuple[UInt64Array, IntArray]:
    """Assigns each record the split that its folder or column names.

    Args:
        assignment: Changed in place.
        sidecars: Staged units.
        named: The `named_splits` of all units.

    Returns:
        ([n] group, [n] split) of the records of groups that are in a split, for `group_conflicts`.
    """
    assignment.names = given_names(named)
    names = pa.array(assignment.names, pa.string())
    groups, given = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
    for begin, table in sidecars:
        split_of = assignment.of(begin, table)
        chosen = np.asarray(pc.index_in(table["split"], value_set=names).to_numpy(), np.int8)
        split_of[:] = np.where(split_of == LEFT_OUT, LEFT_OUT, chosen)
        grouped = pc.is_valid(table["group"]).to_numpy() & (split_of != LEFT_OUT)
        groups.append(uint64(table["group"].filter(pa.array(grouped))))
        given.append(split_of[grouped].astype(np.int64))
    return np.concatenate(groups), np.concatenate(given)


class GroupConflicts(NamedTuple):
    """Groups whose records are in different splits.

    Attributes:
        number: How many there are.
        first: The lowest one, and two splits that it is in.
    """

    number: int
    first: tuple[int, int, int]


def group_conflicts(groups: UInt64Array, splits: IntArray) -> GroupConflicts | None:
    """The groups of [n] records that are in different splits; None if there is none."""
    order = np.lexsort((splits, groups))
    groups, splits = groups[order], splits[order]
    conflicts = np.flatnonzero((groups[1:] == groups[:-1]) & (splits[1:] != splits[:-1]))
    if not len(conflicts):
        return None
    one, other = splits[conflicts[0] : conflicts[0] + 2].tolist()
    number = len(np.unique(groups[conflicts]))
    return GroupConflicts(number, (int(groups[conflicts[0]]), one, other))


def refuse_conflicts(conflicts: GroupConflicts | None, names: Sequence[str]) -> None:
    """Refuses groups whose records are in different splits.

    Args:
        conflicts: These groups, if any.
        names: Names of the splits.

    Raises:
        InputError: There are some.
    """
    if conflicts is not None:
        one, other = (names[split] for split in conflicts.first[1:])
        raise InputError(
            f"{conflicts.number} groups of --group-by are in two splits, the first of them in "
            f"{one} and {other}. Correct the split column or folders, or leave --group-by out."
        )


def check_clusters(assignment: Assignment, clusters: Clusters) -> None:
    """Checks that every cluster that is kept as a whole is in one split.

    Raises:
        InputError: A cluster has records in two of the given splits.
    """
    members = clusters.members
    split = assignment.split_of[int64(members["record"])]
    ids = members["kept_id"]
    same = pc.equal(ids.slice(1), ids.slice(0, max(0, len(ids) - 1))).to_numpy()
    conflicts = np.flatnonzero(same & (split[1:] != split[:-1]))
    if len(conflicts):
        count = pc.count_distinct(ids.take(pa.array(conflicts))).as_py()
        first = [
            f"{members['record_id'][at].as_py()!r} in {assignment.names[split[at]]}"
            for at in (int(conflicts[0]), int(conflicts[0]) + 1)
        ]
        raise InputError(
            f"{count} clusters of duplicates are in two splits, the first of them with "
            f"{' and '.join(first)}. Leave --duplicates keep out (then the record in test or "
            "validation is kept), or correct the split column or folders."
        )


def stratified(
    assignment: Assignment,
    sidecars: Sidecars,
    identity: Identity,
    fractions: dict[str, float],
    class_names: list[str],
) -> None:
    """Assigns every split its fraction of every class, exact to one record without groups.

    Records are ranked within their class by the same hash that `by_fraction` compares with the
    thresholds. Records that must stay together go where the middle of them falls, and count for
    their most frequent class.
    """
    assignment.names = list(fractions)
    strata = Strata(assignment, sidecars, identity, class_names)
    strata.joined = strata.counted = majorities(np.concatenate(list(strata.labels_of_joined())))
    positions = positions_by_class(sidecars.records, class_names)
    strata.count(positions)
    choose_thresholds(positions, fractions)
    strata.collect(positions)
    strata.assign(np.stack(positions.keys()))


def positions_by_class(records: int, class_names: list[str]) -> Quantiles:
    """Where positions of so many records are counted: the first group has no label."""
    classes = 1 + len(class_names)
    return Quantiles(class_bits(records, classes), classes)


def choose_thresholds(positions: Quantiles, fractions: dict[str, float]) -> None:
    """Chooses the places in every class where splits begin, once all positions are counted."""
    thresholds = _thresholds(fractions)
    positions.choose([_places(thresholds, total) for total in positions.counts.tolist()])


# How many of the records with a key have a label; and one label for all of them.
JOINED = np.dtype([("key", np.uint64), ("label", np.int64), ("count", np.int64)])


class Strata:
    """The positions of records, by class.

    Records that must stay together have one key and one label; others are alone.

    Args:
        assignment: Which records are in a split, and where `assign` puts the splits.
        sidecars: Staged units.
        identity: What must stay together.
        class_names: Names of the classes of the label.

    Attributes:
        joined: JOINED by key, ascending: the `majorities` of all records that may have to stay
            together with others; larger keys have larger positions.
        counted: Those of them that `count` and `collect` take.
    """

    def __init__(
        self,
        assignment: Assignment,
        sidecars: Sidecars,
        identity: Identity,
        class_names: list[str],
    ) -> None:
        self.joined = self.counted = np.zeros(0, JOINED)
        self._assignment = assignment
        self._sidecars = sidecars
        self._identity = identity
        self._class_names = class_names

    def labels_of_joined(self) -> Iterator[StructuredArray]:
        """JOINED of the records that may have to stay together with others, part by part."""
        yield np.zeros(0, JOINED)
        for _, table, keys, joined in self._rows():
            yield joined_rows(keys[joined], self._labels(table)[joined])

    def count(self, positions: Quantiles) -> None:
        """Counts all positions."""
        for _, keys, labels, alone in self._records():
            positions.count(keys[alone], labels[alone])
        counted = self.counted
        positions.count(counted["key"], counted["label"], counted["count"])

    def collect(self, positions: Quantiles) -> None:
        """Collects those near the places that are chosen."""
        for _, keys, labels, alone in self._records():
            positions.collect(keys[alone], labels[alone])
        counted = self.counted
        positions.collect(counted["key"], counted["label"], counted["count"])

    def assign(self, begins: UInt64Array) -> None:
        """Assigns the splits, which begin at [classes, splits - 1] positions in each class."""
        for split_of, keys, labels, _ in self._records():
            split_of[split_of != LEFT_OUT] = (begins[labels] <= keys[:, np.newaxis]).sum(axis=1)

    def _records(
        self,
    ) -> Iterator[tuple[npt.NDArray[np.int8], UInt64Array, IntArray, BoolArray]]:
        """Splits of all rows of a part; keys, labels, alone of its records that are in a split."""
        for split_of, table, keys, joined in self._rows():
            labels = self._labels(table)
            at = np.searchsorted(self.joined["key"], keys[joined])
            labels[joined] = self.joined["label"][at]
            yield split_of, keys, labels, ~joined

    def _rows(
        self,
    ) -> Iterator[tuple[npt.NDArray[np.int8], pa.Table, UInt64Array, BoolArray]]:
        """Splits of all rows of a part; its records in a split, their keys, which are joined."""
        for begin, table in self._sidecars:
            split_of = self._assignment.of(begin, table)
            inside = pa.array(split_of != LEFT_OUT)
            table = table.select(["id_hash", "group", "label"]).filter(inside)
            positions = split_positions(self._identity(table))
            keys = (positions * 2.0**64).astype(np.uint64)
            yield split_of, table, keys, self._identity.is_joined(table)

    def _labels(self, table: pa.Table) -> IntArray:
        return label_numbers(table["label"], self._class_names) + 1


def joined_rows(
    keys: UInt64Array, labels: IntArray, counts: IntArray | None = None
) -> StructuredArray:
    """JOINED of [n] records, or of so many with each key and label; sorted, each of both once."""
    order = np.lexsort((labels, keys))
    starts = run_starts(keys[order], labels[order])
    rows = np.zeros(int(starts.sum()), JOINED)
    rows["key"], rows["label"] = keys[order][starts], labels[order][starts]
    each = np.ones(len(order), np.int64) if counts is None else counts[order]
    np.add.at(rows["count"], np.cumsum(starts) - 1, each)
    return rows


def majorities(rows: StructuredArray) -> StructuredArray:
    """JOINED, each key once: its most frequent label, the lowest on a tie, and all its records.

    Args:
        rows: JOINED in any order, all that there are of each key.
    """
    rows = joined_rows(rows["key"], rows["label"], rows["count"])
    best = rows[np.lexsort((rows["label"], -rows["count"], rows["key"]))]
    starts = run_starts(best["key"])
    chosen = best[starts]
    chosen["count"] = 0
    np.add.at(chosen["count"], np.cumsum(starts) - 1, best["count"])
    return chosen


def _places(thresholds: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.float64]:
    """[splits - 1] the least middles whose share of a class is not below each threshold.

    A middle is a multiple of one half. Shares are compared, since products are rounded otherwise.
    """
    halves = np.ceil(2 * thresholds * total)
    if total:
        halves -= (halves - 1) / 2 / total >= thresholds
        halves += halves / 2 / total < thresholds
    return halves / 2
