"""Records that must stay together, by ranges of what they have in common.

With --stratify every group has the label that most of its records have, and a place among all
positions of that class; with given splits no group may be in two of them. Both are decided by the
worker that has the range of the group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from beam_jobs import bounds
from beam_jobs.columns import IntArray, run_starts
from beam_jobs.stages.plan.splits import (
    JOINED,
    GroupConflicts,
    Strata,
    group_conflicts,
    joined_rows,
    majorities,
    refuse_conflicts,
)
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.staging.reordering import StructuredArray
from shard_format import mix
from shard_format.keys import UInt64Array

_LABELS, _MAJORITIES, _GIVEN = "group-labels", "group-majorities", "group-splits"  # exchanges
_GROUPS = "groups"  # a file with the groups of a range
_SPLIT = np.dtype([("group", np.uint64), ("split", np.int64)])


def _owner(keys: UInt64Array, ranges: int) -> tuple[IntArray, IntArray]:
    """([n] range that has each group, [n] its place there, below 2**32)."""
    scaled = (mix(keys) >> np.uint64(32)).astype(np.int64) * ranges
    return scaled >> 32, scaled & 0xFFFFFFFF


def send_labels(plan: SpreadPlan, number: int, strata: Strata) -> dict[str, Any]:
    """Sends which labels the groups of a range of units have there."""
    sizes: dict[str, bytes] = {}
    with plan.sent(_LABELS, number, JOINED, sizes) as sent:
        for rows in strata.labels_of_joined():
            sent.add(_owner(rows["key"], plan.ranges)[0], rows)
    return {"sizes": sizes}


def choose_labels(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Chooses the label of every group of a range, and tells the ranges of units that have it."""
    sizes: dict[str, bytes] = {}
    checksums: dict[str, str] = {}
    received = plan.exchange(_LABELS).count(number, plan.ranges, JOINED)
    parts = max(1, -(-received // bounds.MOST_PARTITION_ROWS))
    sourced = np.dtype([*JOINED.descr, ("source", np.int64)])
    with (
        plan.partitions(sourced, parts) as by_key,
        plan.writing_rows(_GROUPS, number, checksums) as groups,
        plan.sent(_MAJORITIES, number, JOINED, sizes) as sent,
    ):
        for source, rows in plan.received(_LABELS, number, JOINED):
            own = np.empty(len(rows), sourced)
            for name in JOINED.names or ():
                own[name] = rows[name]
            own["source"] = source
            by_key.add(_owner(rows["key"], plan.ranges)[1] * parts >> 32, own)
        for rows in by_key.take():
            chosen = majorities(rows)
            groups.write(chosen.tobytes())
            rows = rows[np.lexsort((rows["source"], rows["key"]))]
            rows = rows[run_starts(rows["key"], rows["source"])]
            sent.add(rows["source"], chosen[np.searchsorted(chosen["key"], rows["key"])])
    return {"sizes": sizes, "sha256": checksums[_GROUPS]}


def after_labels(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Keeps the checksums of the groups of all ranges."""
    plan.decisions.noted[_GROUPS] = [result["sha256"] for result in results]


def chosen_labels(plan: SpreadPlan, number: int) -> StructuredArray:
    """JOINED by key, ascending: the groups of a range of units."""
    received = (rows for _, rows in plan.received(_MAJORITIES, number, JOINED))
    rows = np.concatenate([np.zeros(0, JOINED), *received])
    return rows[np.argsort(rows["key"])]


def own_groups(plan: SpreadPlan, number: int) -> Iterator[StructuredArray]:
    """JOINED of all groups of a range of groups, some at a time."""
    sha256 = plan.decisions.noted[_GROUPS][number]
    with plan.written_rows(_GROUPS, number, JOINED, sha256) as groups:
        for start in range(0, groups.count, bounds.PLANNED_ROWS):
            yield groups.read(start, min(start + bounds.PLANNED_ROWS, groups.count))


def send_splits(
    plan: SpreadPlan, number: int, groups: UInt64Array, splits: IntArray
) -> dict[str, bytes]:
    """Sends in which given splits the groups of a range of units are; returns the sizes."""
    sizes: dict[str, bytes] = {}
    rows = joined_rows(groups, splits)
    given = np.empty(len(rows), _SPLIT)
    given["group"], given["split"] = rows["key"], rows["label"]
    with plan.sent(_GIVEN, number, _SPLIT, sizes) as sent:
        sent.add(_owner(given["group"], plan.ranges)[0], given)
    return sizes


def compare_splits(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Counts the groups of a range that are in two of the given splits."""
    parts = max(
        1,
        -(-plan.exchange(_GIVEN).count(number, plan.ranges, _SPLIT) // bounds.MOST_PARTITION_ROWS),
    )
    conflicts = []
    with plan.partitions(_SPLIT, parts) as by_group:
        for _, rows in plan.received(_GIVEN, number, _SPLIT):
            by_group.add(_owner(rows["group"], plan.ranges)[1] * parts >> 32, rows)
        for rows in by_group.take():
            conflicts.append(group_conflicts(rows["group"], rows["split"]))
    return {"conflicts": [one for one in conflicts if one is not None]}


def after_comparison(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Refuses given splits that divide a group.

    Raises:
        InputError: They do.
    """
    conflicts = [GroupConflicts(*one) for result in results for one in result["conflicts"]]
    if conflicts:
        number = sum(one.number for one in conflicts)
        first = min(one.first for one in conflicts)
        refuse_conflicts(GroupConflicts(number, first), plan.decisions.names)
