"""Duplicate clusters: which records are equal or alike, which one is kept, and whose labels differ.

A record of an evaluation split is kept before one of the training split (so that a leak costs
training data, not evaluation data), then, if asked for, the one with the highest value of a column,
then the record whose id sorts first. So the choice depends neither on the seed nor on the order of
reading. Memory grows with the number of duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import IntArray, first_of_run, int64, run_starts
from beam_jobs.dedup.exact import NO_PAIRS, Pairs

# The kept record of a cluster across several given splits is in the first of these.
_SPLIT_PRIORITY = ("test", "validation", "train")

CLUSTER_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("kept_id", pa.string(), nullable=False),
        pa.field("kept_label", pa.string()),
        pa.field("kind", pa.string(), nullable=False),  # "exact" or "near"
        pa.field("similarity", pa.float32(), nullable=False),  # 1 for exact
        pa.field("conflict", pa.bool_(), nullable=False),  # the cluster has several labels
        pa.field("dropped", pa.bool_(), nullable=False),
        pa.field("record", pa.int64(), nullable=False),  # number among the staged ones
    ]
)

CLUSTER_ORDER = ("kept_id", "record_id")


def components(count: int, pairs: IntArray) -> IntArray:
    """[count] int64: for every node the smallest node that it is connected to, itself included.

    The usual union-find takes one pair at a time, which takes minutes for millions of pairs in
    Python. Here all pairs are processed at once: the parent of every root becomes the smallest root
    that it is paired with, then all paths are halved until they are flat. Of two paired roots at
    least one is no longer a root, so a round halves the number of paired roots (Shiloach and
    Vishkin: An O(log n) parallel connectivity algorithm, 1982).

    Args:
        count: Nodes, which are 0 to count - 1.
        pairs: [m, 2] nodes that belong together, in any order, repeats and loops allowed.
    """
    roots = np.arange(count, dtype=np.int64)
    first, second = (np.ascontiguousarray(column, np.int64) for column in pairs.reshape(-1, 2).T)
    while len(first):
        np.minimum.at(roots, np.maximum(first, second), np.minimum(first, second))
        _flatten(roots)
        first, second = roots[first], roots[second]
        apart = first != second
        first, second = first[apart], second[apart]
    return roots


Numbers = TypeVar("Numbers", np.int64, np.uint64)


def connected(pairs: npt.NDArray[Numbers]) -> tuple[npt.NDArray[Numbers], npt.NDArray[Numbers]]:
    """([n] records that occur in pairs, ascending, [n] the smallest one of each set).

    Memory grows with the number of pairs, whatever the numbers of their records are.

    Args:
        pairs: [m, 2] records that belong together.
    """
    records, nodes = np.unique(pairs, return_inverse=True)
    return records, records[components(len(records), nodes.reshape(-1, 2))]


def _flatten(roots: IntArray) -> None:
    """Makes every node point at its root, halving all paths at every step."""
    while True:
        grandparents = roots[roots]
        if np.array_equal(grandparents, roots):
            return
        roots[:] = grandparents


class Clusters(NamedTuple):
    """Every cluster of two records and more.

    Attributes:
        members: One row per record in a cluster, sorted by (kept_id, record_id): the columns of
            CLUSTER_SCHEMA, including the kept records. Of many, a file that is mapped.
        num_dropped: Number of records to leave out.
        conflicts: Clusters whose records have different labels.
        lost_to_conflict: Records left out only because the labels of their cluster differ.
    """

    members: pa.Table
    num_dropped: int
    conflicts: int
    lost_to_conflict: int

    @property
    def dropped(self) -> IntArray:
        """[n] int64, numbers of the records to leave out, ascending."""
        return np.sort(int64(self.members.filter(self.members["dropped"])["record"]))

    @property
    def number(self) -> int:
        """Number of clusters."""
        return int(pc.count_distinct(self.members["kept_id"]).as_py())


class NearPairs(NamedTuple):
    """Pairs of near duplicates: not all pairs of a cluster, but enough to connect it.

    Attributes:
        pairs: [n, 2] int64, the lower number first, no pair twice.
        similarity: [n] float32 in (0, 1].
    """

    pairs: Pairs
    similarity: npt.NDArray[np.float32]


NO_NEAR_PAIRS = NearPairs(NO_PAIRS, np.zeros(0, np.float32))


def whole_clusters(exact: Pairs, near: NearPairs) -> Iterator[tuple[Pairs, NearPairs]]:
    """The pairs of some thousand records and more at a time, all of a cluster together.

    Args:
        exact: Pairs of exact duplicates.
        near: Pairs of near duplicates.
    """
    records, roots = connected(np.concatenate([exact, near.pairs]))
    order = np.argsort(roots, kind="stable")
    starts = first_of_run(run_starts(roots[order]))
    part_of = np.empty(len(records), np.int64)
    part_of[order] = starts // bounds.CLUSTERED_RECORDS
    exact_part, near_part = (
        part_of[np.searchsorted(records, pairs[:, 0])] for pairs in (exact, near.pairs)
    )
    for part in np.unique(part_of).tolist():
        inside = near_part == part
        yield exact[exact_part == part], NearPairs(near.pairs[inside], near.similarity[inside])


# What is decided about members of a cluster.
MEMBER_COLUMNS = {"record_id": pa.string(), "label": pa.string(), "split": pa.string()}

# From numbers of records, ascending, to MEMBER_COLUMNS of each.
Members = Callable[[IntArray], pa.Table]


def find_clusters(
    members_of: Members,
    exact: Pairs,
    near: NearPairs,
    *,
    keep_all: bool,
    drop_conflicts: bool,
    best: str | None = None,
) -> Clusters:
    """Joins pairs to clusters and decides which records of each are kept.

    Args:
        members_of: Looks up the records of all pairs.
        exact: Pairs of exact duplicates.
        near: Pairs of near duplicates.
        keep_all: Keep every record; clusters then matter for splits only.
        drop_conflicts: Leave a whole cluster out if its labels differ.
        best: The column of members of which the highest value is kept.
    """
    records, roots = connected(np.concatenate([exact, near.pairs]))
    of_exact = components(len(records), np.searchsorted(records, exact))
    members = members_of(records)
    order = _order(members, roots, best)
    roots, of_exact, records = roots[order], of_exact[order], records[order]
    members = members.take(pa.array(order))
    first = run_starts(roots)
    kept_at = first_of_run(first)

    differs = _differs(members["label"], kept_at)
    conflict = np.isin(roots, roots[differs])
    lost = conflict & first & drop_conflicts & (not keep_all)
    dropped = (~first | lost) & (not keep_all)
    kept = members.take(pa.array(kept_at))
    table = pa.table(
        {
            "record_id": members["record_id"],
            "label": members["label"].cast(pa.string()),
            "kept_id": kept["record_id"],
            "kept_label": kept["label"].cast(pa.string()),
            "kind": np.where(of_exact == of_exact[kept_at], "exact", "near"),
            "similarity": _best(records, near, of_exact == of_exact[kept_at]),
            "conflict": conflict,
            "dropped": dropped,
            "record": records,
        }
    ).cast(CLUSTER_SCHEMA)
    return Clusters(
        members=table.sort_by([(name, "ascending") for name in CLUSTER_ORDER]),
        num_dropped=int(dropped.sum()),
        conflicts=len(np.unique(roots[conflict])),
        lost_to_conflict=int(lost.sum()),
    )


def join_clusters(before: Clusters, after: Clusters) -> Clusters:
    """All clusters, those of `after` found among the records that `before` keeps.

    A record that was kept, and is dropped now, takes its cluster along to the record kept for it.
    """
    if not len(after.members):
        return before
    moved = after.members.filter(after.members["dropped"])
    in_after = pc.is_in(before.members["record"], after.members["record"].combine_chunks())
    old = before.members.filter(pc.invert(in_after))
    at = pc.index_in(old["kept_id"], value_set=moved["record_id"].combine_chunks())
    for name in ("kept_id", "kept_label"):
        column = pc.if_else(pc.is_valid(at), moved[name].take(at), old[name])
        old = old.set_column(old.column_names.index(name), CLUSTER_SCHEMA.field(name), column)
    members = pa.concat_tables([old, after.members])
    return Clusters(
        members=members.sort_by([(name, "ascending") for name in CLUSTER_ORDER]),
        num_dropped=len(np.union1d(before.dropped, after.dropped)),
        conflicts=before.conflicts + after.conflicts,
        lost_to_conflict=before.lost_to_conflict + after.lost_to_conflict,
    )


def _order(members: pa.Table, roots: IntArray, best: str | None) -> IntArray:
    """Cluster by cluster, the record to keep first."""
    given = members["split"].cast(pa.string())
    priority = pc.fill_null(pc.index_in(given, value_set=pa.array(_SPLIT_PRIORITY)), 0)
    columns = {
        "root": roots,
        "priority": priority.cast(pa.int64()),
        "record_id": members["record_id"].cast(pa.string()),
        "position": np.arange(len(roots)),
    }
    by = [("root", "ascending"), ("priority", "ascending"), ("record_id", "ascending")]
    if best is not None:  # missing values are sorted last
        columns["best"] = members[best]
        by.insert(2, ("best", "descending"))
    table = pa.table(columns).sort_by(by)
    return np.asarray(table["position"].to_numpy(), np.int64)


def _differs(labels: pa.ChunkedArray, kept_at: IntArray) -> npt.NDArray[np.bool_]:
    codes = labels.cast(pa.string()).combine_chunks().dictionary_encode("encode").indices.to_numpy()
    return codes != codes[kept_at]


def _best(
    records: IntArray, near: NearPairs, exact: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """The greatest similarity of each record to another one; 1 where exact."""
    order = np.argsort(records)
    best = np.zeros(len(records), np.float32)
    for side in (0, 1):
        position = order[np.searchsorted(records[order], near.pairs[:, side])]
        np.maximum.at(best, position, near.similarity)
    # A record may be in its cluster only through an exact duplicate.
    best[exact | (best == 0)] = 1
    return best
