"""Which split a record belongs to, decided on whole columns.

The position of a record in [0, 1) is a hash of what must stay together: its own id, its group, or
the cluster it is kept with. So it depends on nothing else in the corpus, and records that are added
later move no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import BoolArray, IntArray, int64, run_starts, uint64
from beam_jobs.dedup.clusters import Clusters, components
from beam_jobs.stages.labels import label_numbers
from beam_jobs.stages.plan.quantiles import Quantiles, class_bits
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
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


def by_corpus(assignment: Assignment, sidecars: Sidecars, named: set[str | None]) -> None:
    """Assigns each record the split that its folder or column names.

    Args:
        assignment: Changed in place.
        sidecars: Staged units.
        named: The `named_splits` of all units.

    Raises:
        InputError: Records of one group are in different splits.
    """
    assignment.names = given_names(named)
    names = pa.array(assignment.names, pa.string())
    groups: list[UInt64Array] = []
    given: list[IntArray] = []
    for begin, table in sidecars:
        split_of = assignment.of(begin, table)
        chosen = np.asarray(pc.index_in(table["split"], value_set=names).to_numpy(), np.int8)
        split_of[:] = np.where(split_of == LEFT_OUT, LEFT_OUT, chosen)
        grouped = pc.is_valid(table["group"]).to_numpy() & (split_of != LEFT_OUT)
        groups.append(uint64(table["group"].filter(pa.array(grouped))))
        given.append(split_of[grouped].astype(np.int64))
    _check_groups(groups, given, assignment.names)


def _check_groups(groups: list[UInt64Array], given: list[IntArray], names: Sequence[str]) -> None:
    if not groups:
        return
    group, split = np.concatenate(groups), np.concatenate(given)
    order = np.lexsort((split, group))
    group, split = group[order], split[order]
    conflicts = np.flatnonzero((group[1:] == group[:-1]) & (split[1:] != split[:-1]))
    if len(conflicts):
        one, other = (names[split[conflicts[0] + after]] for after in (0, 1))
        raise InputError(
            f"{len(np.unique(group[conflicts]))} groups of --group-by are in two splits, the first "
            f"of them in {one} and {other}. Correct the split column or folders, or leave "
            "--group-by out."
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


class Strata:
    """The positions of records, by class.

    Records that must stay together have one key and one label; others are alone.

    Args:
        assignment: Which records are in a split, and where `assign` puts the splits.
        sidecars: Staged units.
        identity: What must stay together.
        class_names: Names of the classes of the label.

    Attributes:
        keys: [n] uint64, ascending; larger ones have larger positions.
        labels: [n] int64, the most frequent class of each, the lowest on a tie; 0 is none.
        sizes: [n] int64, number of records of each.
    """

    def __init__(
        self,
        assignment: Assignment,
        sidecars: Sidecars,
        identity: Identity,
        class_names: list[str],
    ) -> None:
        self._assignment = assignment
        self._sidecars = sidecars
        self._identity = identity
        self._class_names = class_names
        keys, labels = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for _, table, own in self._rows():
            joined = identity.is_joined(table)
            keys.append(own[joined])
            labels.append(self._labels(table)[joined])
        self.keys, self.labels, self.sizes = _majorities(
            np.concatenate(keys), np.concatenate(labels)
        )

    def count(self, positions: Quantiles) -> None:
        """Counts all positions."""
        for _, keys, labels, alone in self._records():
            positions.count(keys[alone], labels[alone])
        positions.count(self.keys, self.labels, self.sizes)

    def collect(self, positions: Quantiles) -> None:
        """Collects those near the places that are chosen."""
        for _, keys, labels, alone in self._records():
            positions.collect(keys[alone], labels[alone])
        positions.collect(self.keys, self.labels, self.sizes)

    def assign(self, begins: UInt64Array) -> None:
        """Assigns the splits, which begin at [classes, splits - 1] positions in each class."""
        for split_of, keys, labels, _ in self._records():
            split_of[split_of != LEFT_OUT] = (begins[labels] <= keys[:, np.newaxis]).sum(axis=1)

    def _records(
        self,
    ) -> Iterator[tuple[npt.NDArray[np.int8], UInt64Array, IntArray, BoolArray]]:
        """Splits of all rows of a part; keys, labels, alone of its records that are in a split."""
        for split_of, table, keys in self._rows():
            labels = self._labels(table)
            alone = np.ones(len(keys), bool)
            if len(self.keys):
                at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
                alone = self.keys[at] != keys
                labels = np.where(alone, labels, self.labels[at])
            yield split_of, keys, labels, alone

    def _rows(self) -> Iterator[tuple[npt.NDArray[np.int8], pa.Table, UInt64Array]]:
        for begin, table in self._sidecars:
            split_of = self._assignment.of(begin, table)
            inside = pa.array(split_of != LEFT_OUT)
            table = table.select(["id_hash", "group", "label"]).filter(inside)
            positions = split_positions(self._identity(table))
            yield split_of, table, (positions * 2.0**64).astype(np.uint64)

    def _labels(self, table: pa.Table) -> IntArray:
        return label_numbers(table["label"], self._class_names) + 1


def _majorities(keys: UInt64Array, labels: IntArray) -> tuple[UInt64Array, IntArray, IntArray]:
    """Every key once, its most frequent label, the lowest on a tie, and how often it occurs."""
    values, component, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    by_label = np.lexsort((labels, component))
    starts = np.flatnonzero(run_starts(component[by_label], labels[by_label]))
    counts = np.diff([*starts, len(by_label)])
    owner, label = component[by_label][starts], labels[by_label][starts]
    best = np.lexsort((label, -counts, owner))
    return values, label[best][run_starts(owner[best])], sizes


def _places(thresholds: npt.NDArray[np.float64], total: int) -> npt.NDArray[np.float64]:
    """[splits - 1] the least middles whose share of a class is not below each threshold.

    A middle is a multiple of one half. Shares are compared, since products are rounded otherwise.
    """
    halves = np.ceil(2 * thresholds * total)
    if total:
        halves -= (halves - 1) / 2 / total >= thresholds
        halves += halves / 2 / total < thresholds
    return halves / 2
