"""Where shards begin, by ranges of the key, and the recipes of the first merge level.

A worker has all keys of a range. How many are in the ranges before it is known, so it finds the
first key of every shard that begins in its range by the rank of that key.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import IntArray, int64
from beam_jobs.progress import report
from beam_jobs.stages.plan.empty_splits import empty_split_warnings
from beam_jobs.stages.plan.find_duplicates import conflict_notes
from beam_jobs.stages.plan.key_order import kept_rows
from beam_jobs.stages.plan.merge_levels import Level, MergeWork, choose_levels, part_of
from beam_jobs.stages.plan.merge_plan import Destinations, UnitGroups, store_merge_plan
from beam_jobs.stages.plan.plan import Plan, count_kept, shard_salt, shards_of, store_plan
from beam_jobs.stages.plan.splits import Identity
from beam_jobs.stages.plan.spread import listing, stored
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.splits import final_splits
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.staging.assignment import (
    Assignment,
    TrainingSample,
    first_rows,
    sample_bytes,
    sample_rows,
    write_splits,
)
from beam_jobs.staging.removed import write_planned
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array
from shard_format.removed_records import RemovedRecords

_KEYS = "keys"  # exchange
_PLANNED = "planned"  # splits
_KEY = np.dtype([("key", np.uint64), ("split", np.int8)])


def order_keys(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the keys of all records and copies to their ranges; returns how many there are."""
    decisions = plan.decisions
    units = UnitRange(plan, number)
    records_of = np.zeros((len(decisions.names), plan.ranges), np.int64)
    bytes_of = np.zeros(len(decisions.names), np.int64)
    sizes: dict[str, bytes] = {}
    with units.columns() as columns, plan.sent(_KEYS, number, _KEY, sizes) as partitions:
        assignment = final_splits(plan, units, columns)
        units.save_splits(_PLANNED, assignment)
        for begin, table in columns:
            split_of = assignment.of(begin, table)
            row, key = kept_rows(table, split_of, decisions.rule)
            rows = np.empty(len(row), _KEY)
            rows["key"], rows["split"] = key, split_of[row]
            ranged = (key // _width(plan)).astype(np.int64)
            partitions.add(ranged, rows)
            np.add.at(records_of, (rows["split"], ranged), 1)
            np.add.at(bytes_of, rows["split"], int64(table["length"])[row])
        counted = count_kept(assignment, columns, plan.context.record_type)
        if plan.context.record_type.sample_bytes:
            plan.save(f"sample-{number:05d}", sample_bytes(assignment, columns))
        sizes |= listing.send_splits(plan, number, columns, assignment)
    return {
        "records_of": records_of,
        "bytes_of": bytes_of,
        "kept": assignment.counts(),
        "counted": counted,
        "sizes": sizes,
    }


def after_keys(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Decides how many shards every split has."""
    decisions = plan.decisions
    for name in ("records_of", "bytes_of", "kept"):
        total = np.sum([result[name] for result in results], axis=0)
        setattr(decisions, name, total.tolist())
    for name in results[0]["counted"]:
        decisions.counted[name] = sum(result["counted"][name] for result in results)
    for split, records, size in zip(
        decisions.names, decisions.records_of, decisions.bytes_of, strict=True
    ):
        sized = (split, sum(records), size)
        decisions.num_shards[split] = shards_of(*sized, plan.context.options, decisions.notes)
    if plan.context.record_type.sample_bytes:
        by_range = (plan.load(f"sample-{number:05d}", np.int64) for number in range(plan.ranges))
        plan.save("sample", functools.reduce(np.add, by_range))


def cut_shards(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Finds the first key of every shard that begins in a range of keys, and its exact rank."""
    decisions = plan.decisions
    own = sum(records[number] for records in decisions.records_of)
    parts = max(1, -(-own // bounds.MOST_PARTITION_ROWS))
    width = _width(plan)
    begins: list[list[UInt64Array]] = [[] for _ in decisions.names]
    ranks: list[list[IntArray]] = [[] for _ in decisions.names]
    wanted_ranks = _wanted_ranks(plan)
    done = [sum(records[:number]) for records in decisions.records_of]
    with plan.partitions(_KEY, parts) as partitions:
        part_width = width // np.uint64(parts) + np.uint64(1)
        for _, rows in plan.received(_KEYS, number, _KEY):
            inside = rows["key"] - np.uint64(number) * width
            partitions.add((inside // part_width).astype(np.int64), rows)
        for rows in partitions.take():
            for split, wanted in enumerate(wanted_ranks):
                keys = np.sort(rows["key"][rows["split"] == split])
                first, last = np.searchsorted(wanted, [done[split], done[split] + len(keys)])
                own_begins = keys[wanted[first:last] - done[split]]
                begins[split].append(own_begins)
                ranks[split].append(done[split] + np.searchsorted(keys, own_begins))
                done[split] += len(keys)
    return {
        "begins": [np.concatenate(of).tobytes() for of in begins],
        "ranks": [np.concatenate(of).astype(np.int64).tobytes() for of in ranks],
    }


def after_cut(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Decides how units are merged."""
    decisions = plan.decisions
    counts: list[IntArray] = []
    for split, of_split in enumerate(decisions.records_of):
        ranks = np.frombuffer(b"".join(result["ranks"][split] for result in results), np.int64)
        begins = np.frombuffer(b"".join(result["begins"][split] for result in results), np.uint64)
        plan.save(f"begins-{split}", begins)
        if sum(of_split):
            counts.append(np.diff([0, *ranks, sum(of_split)]))
    plan.save("shard-records", np.concatenate([np.zeros(0, np.int64), *counts]))
    records = sum(sum(of_split) for of_split in decisions.records_of)
    units, staged = sum(decisions.units), max(1, plan.records)
    work = MergeWork(
        units,
        sum(decisions.num_shards.values()),
        records,
        sum(decisions.bytes_of),
        decisions.row_bytes * max(records, staged) // staged,
    )
    levels = choose_levels(work, plan.merging) or (Level(plan.ranges, 1),)
    # Every range has whole groups of its own, so there may be some more than were chosen.
    per_unit = min(1.0, levels[0].groups / max(1, units))
    decisions.groups = [math.ceil(own * per_unit) for own in decisions.units]
    first = Level(sum(decisions.groups), levels[0].buckets)
    decisions.levels = [(level.groups, level.buckets) for level in (first, *levels[1:])]
    report(plan.workspace.progress, "merge", total=records * len(levels))
    report(plan.workspace.progress, "shard", total=records)


def write_recipes(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Writes the recipes of the groups in a range of units, and their stored records."""
    decisions = plan.decisions
    units = UnitRange(plan, number)
    begins = [
        plan.load(f"begins-{split}", np.uint64) if decisions.num_shards[name] else None
        for split, name in enumerate(decisions.names)
    ]
    destinations, groups = Destinations(begins), decisions.groups[number]
    before = sum(decisions.groups[:number])
    with units.columns() as columns:
        assignment = units.assignment(_PLANNED)
        writer = UnitGroups(plan.workspace, columns, assignment, decisions.rule)
        recipes = []
        for group in range(groups):
            between = part_of(group, groups, decisions.units[number])
            batch = writer.records(between, destinations)
            recipes.append(writer.write_recipe(between, before + group, batch))
        size = plan.context.record_type.sample_bytes
        sample = None
        if size:
            by_bin = plan.load("sample", np.int64)
            sample = sample_rows(assignment, columns, units.sidecars, by_bin, size)
    written = stored.write_part(plan, number, units, assignment)
    return {"recipes": recipes, "sample": sample, "stored": written}


def after_recipes(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Writes the plan, for all later stages."""
    context, decisions, workspace = plan.context, plan.decisions, plan.workspace
    training = Assignment(np.zeros(0, np.int8), decisions.names).training
    size = context.record_type.sample_bytes
    sample = TrainingSample(
        lambda: first_rows([result["sample"] for result in results], size),
        workspace,
        plan.records,
        decisions.kept[training],
        decisions.names[training],
    )
    settled, artifact_notes = context.record_type.prepare_shared_artifacts(workspace, sample)
    rule = decisions.rule
    filtered = {
        **decisions.filtered,
        "undersampled": rule.left_out if rule is not None else 0,
        "label-conflict": decisions.lost_to_conflict,
    }
    planned = Plan(
        num_shards=decisions.num_shards,
        training=decisions.names[training],
        class_names=decisions.class_names,
        duplicates=decisions.dropped - decisions.lost_to_conflict,
        filtered={reason: count for reason, count in filtered.items() if count},
        left_out=decisions.left_out,
        excluded=0,
        excluded_refused={},
        excluded_filtered={},
        repeated=rule.copies if rule is not None else 0,
        counted=decisions.counted,
        notes=[
            *conflict_notes(decisions.conflicts, decisions.clusters, context.options),
            *decisions.notes,
            *artifact_notes,
        ],
        warnings=[] if all(decisions.kept) else _empty_splits(plan),
        settled=settled,
        cluster_files=decisions.cluster_files,
        duplicates_parts=decisions.duplicates_parts,
        stored_files={name: info for one in results for name, info in one["stored"].items()},
    )
    store_plan(workspace, planned)
    write_planned(workspace, RemovedRecords())
    store_merge_plan(
        context,
        [Level(*level) for level in decisions.levels],
        [recipe for result in results for recipe in result["recipes"]],
        decisions.num_shards,
        plan.load("shard-records", np.int64),
        shard_salt(context, planned),
    )


def _empty_splits(plan: SpreadPlan) -> list[str]:
    path = plan.workspace.scratch_file()
    parts = (plan.load(f"{_PLANNED}-{number:05d}", np.int8) for number in range(plan.ranges))
    write_splits(path, plan.records, parts)
    assignment = Assignment(np.load(path, mmap_mode="r"), plan.decisions.names)
    path.unlink()
    identity = Identity(Sidecars(plan.workspace, ()), None)
    counts = np.array(plan.decisions.kept, np.int64)
    return empty_split_warnings(plan.context, assignment, _AllColumns(plan), identity, counts)


class _AllColumns:
    """The columns of all ranges of units, for the few passes of one worker."""

    def __init__(self, plan: SpreadPlan) -> None:
        self._plan = plan

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        for number, begin in enumerate(self._plan.begins[:-1].tolist()):
            with UnitRange(self._plan, number).columns() as columns:
                for own, table in columns.without_progress():
                    yield begin + own, table


def _width(plan: SpreadPlan) -> np.uint64:
    """Width of a range of keys; there are at least two."""
    return np.uint64(-(-(1 << 64) // plan.ranges))


def _wanted_ranks(plan: SpreadPlan) -> list[IntArray]:
    """By split, the ranks at which every shard but the first begins; see `SplitKeys.cut`."""
    return [
        np.arange(1, plan.decisions.num_shards[name], dtype=np.int64)
        * sum(records)
        // max(1, plan.decisions.num_shards[name])
        for name, records in zip(plan.decisions.names, plan.decisions.records_of, strict=True)
    ]
