"""Which split a record belongs to: a number per record, decided on whole columns.

A record's place in [0, 1) is a hash of what must not be torn apart: its own id, its group, or the
cluster it is kept with. So it depends on nothing else in the corpus, and a record that is added
later moves no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, uint64
from beam_jobs.corpus.names import SPLIT_NAMES
from beam_jobs.dedup.clusters import Clusters
from beam_jobs.dedup.union_find import components
from beam_jobs.stages.plan.classes import label_numbers
from beam_jobs.staging.sidecars import Sidecars
from shard_format import InputError, split_positions
from shard_format.keys import UInt64Array

LEFT_OUT = -1
# In which order given splits are written.
_GIVEN_ORDER = ("train", "validation", "test")


class Assignment:
    """The split of every staged record, as one byte each in a memory-mapped file.

    Attributes:
        names: Of the splits; a split is a number into this list.
        split_of: [records] int8; LEFT_OUT for records that are in no split.
    """

    def __init__(self, path: Path, sidecars: Sidecars) -> None:
        self._begins = sidecars.begins
        self.names: list[str] = []
        self.split_of: npt.NDArray[np.int8] = (
            np.lib.format.open_memmap(path, "w+", np.int8, (sidecars.records,))
            if sidecars.records
            else np.zeros(0, np.int8)
        )

    def unit(self, unit: int) -> npt.NDArray[np.int8]:
        """[rows] int8 of one unit; a view that can be written to."""
        return self.split_of[self._begins[unit] : self._begins[unit + 1]]

    @property
    def training(self) -> int:
        """The split that is trained on: "train", else the first that is not for evaluation."""
        # No "train" beside "test=0.2,fit=0.8" must not make "test" the one that is balanced.
        meant = [SPLIT_NAMES.get(name, "") for name in self.names]
        return next((meant.index(name) for name in ("train", "") if name in meant), 0)


class Identity:
    """What must not be torn apart, as 64 bits per record."""

    def __init__(self, sidecars: Sidecars, clusters: Clusters | None) -> None:
        # Only clusters that are kept as a whole tie records together.
        self._from: UInt64Array = np.zeros(0, np.uint64)
        self._to: UInt64Array = self._from
        if clusters is None or not len(clusters.members):
            return
        records = np.asarray(clusters.members["record"].to_numpy(), np.int64)
        own = _own_identity(sidecars.take(records, ["id_hash", "group"]))
        values, nodes = np.unique(own, return_inverse=True)
        ids = clusters.members["kept_id"]
        same = np.flatnonzero(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy())
        pairs = np.stack([nodes[same], nodes[same + 1]], axis=1)
        self._from, self._to = values, values[components(len(values), pairs)]

    def __call__(self, table: pa.Table) -> UInt64Array:
        """[n] uint64 of the rows of a sidecar."""
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
    """Gives each record the split in whose part of [0, 1) it falls."""
    assignment.names = list(fractions)
    thresholds = _thresholds(fractions)
    for unit, table in sidecars:
        split_of = assignment.unit(unit)
        chosen = np.searchsorted(thresholds, split_positions(identity(table)), side="right")
        split_of[:] = np.where(split_of == LEFT_OUT, LEFT_OUT, chosen)


def _thresholds(fractions: dict[str, float]) -> npt.NDArray[np.float64]:
    return np.cumsum(list(fractions.values()))[:-1]


def by_corpus(assignment: Assignment, sidecars: Sidecars) -> None:
    """Gives each record the split that its folder or column names.

    Raises:
        InputError: Records of one group were given to different splits.
    """
    found = {name for _, table in sidecars for name in pc.unique(table["split"]).to_pylist()}
    assignment.names = [name for name in _GIVEN_ORDER if name in found]
    names = pa.array(assignment.names, pa.string())
    groups: list[UInt64Array] = []
    given: list[IntArray] = []
    for unit, table in sidecars:
        split_of = assignment.unit(unit)
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
    torn = np.flatnonzero((group[1:] == group[:-1]) & (split[1:] != split[:-1]))
    if len(torn):
        one, other = (names[split[torn[0] + after]] for after in (0, 1))
        count = len(np.unique(group[torn]))
        raise InputError(
            f"a group of --group-by must lie in one split, got {count} groups in two, the "
            f"first of them in {one} and {other}. Correct the split column or folders, or leave "
            "--group-by out."
        )


def check_clusters(assignment: Assignment, clusters: Clusters) -> None:
    """Returns if every cluster that is kept as a whole lies in one split.

    Raises:
        InputError: The corpus gives splits that tear one apart.
    """
    members = clusters.members
    split = assignment.split_of[np.asarray(members["record"].to_numpy(), np.int64)]
    ids = members["kept_id"]
    same = pc.equal(ids.slice(1), ids.slice(0, max(0, len(ids) - 1))).to_numpy()
    torn = np.flatnonzero(same & (split[1:] != split[:-1]))
    if len(torn):
        count = pc.count_distinct(ids.take(pa.array(torn))).as_py()
        first = [
            f"{members['record_id'][at].as_py()!r} in {assignment.names[split[at]]}"
            for at in (int(torn[0]), int(torn[0]) + 1)
        ]
        raise InputError(
            f"duplicates that are kept must lie in one split, got {count} clusters in two, the "
            f"first of them with {' and '.join(first)}. Leave --duplicates keep out, and the one "
            "of test or validation is kept, or correct the split column or folders."
        )


def stratified(
    assignment: Assignment,
    sidecars: Sidecars,
    identity: Identity,
    fractions: dict[str, float],
    class_names: list[str],
) -> None:
    """Gives every split its fraction of every class: within one record, where nothing is tied.

    Records are ranked within their class by the same hash that `by_fraction` compares with the
    thresholds. Records that must stay together go where the middle of them falls, and count for
    the class of most of them.
    """
    assignment.names = list(fractions)
    identities: list[UInt64Array] = []
    labels: list[IntArray] = []
    for unit, table in sidecars:
        inside = pa.array(assignment.unit(unit) != LEFT_OUT)
        table = table.select(["id_hash", "group", "label"]).filter(inside)
        identities.append(identity(table))
        labels.append(label_numbers(table["label"], class_names))
    if not identities:
        return
    chosen = _stratify(np.concatenate(identities), np.concatenate(labels), _thresholds(fractions))
    inside = assignment.split_of != LEFT_OUT
    assignment.split_of[inside] = chosen


def _stratify(
    identities: UInt64Array, labels: IntArray, thresholds: npt.NDArray[np.float64]
) -> IntArray:
    """[n] int64, the split of each record."""
    values, component, sizes = np.unique(identities, return_inverse=True, return_counts=True)
    # The class of a component: the most frequent one among its records, the least on a tie.
    by_class = np.lexsort((labels, component))
    starts = _run_starts(component[by_class], labels[by_class])
    counts = np.diff([*starts, len(by_class)])
    owner, label = component[by_class][starts], labels[by_class][starts]
    best = np.lexsort((label, -counts, owner))
    class_of = label[best][_run_starts(owner[best])]

    order = np.lexsort((values, split_positions(values), class_of))
    ends = np.cumsum(sizes[order])
    class_starts = _run_starts(class_of[order])
    before = np.concatenate(([0], ends))[class_starts]
    lengths = np.diff([*class_starts, len(order)])
    totals = np.add.reduceat(sizes[order], class_starts)
    middle = ends - sizes[order] / 2 - np.repeat(before, lengths)
    split = np.empty(len(values), np.int64)
    split[order] = np.searchsorted(thresholds, middle / np.repeat(totals, lengths), side="right")
    return split[component]


def _run_starts(*columns: npt.NDArray[np.generic]) -> IntArray:
    """Where a new run of equal rows begins, in columns that are sorted."""
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def units_of(
    assignment: Assignment, sidecars: Sidecars
) -> Iterator[tuple[int, pa.Table, IntArray]]:
    """(unit, its sidecar, the split of each row) of every unit."""
    for unit, table in sidecars:
        yield unit, table, assignment.unit(unit).astype(np.int64)
