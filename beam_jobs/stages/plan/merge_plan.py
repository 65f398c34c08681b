"""The tasks of every merge level, and the shards behind the last one.

Planning writes a recipe for each group of units: their records in any order, each with its
destination, the number of its shard over all splits. That takes one pass over the sidecars,
whatever the size of the corpus: tasks sort the records, not the planner. The tasks of further
levels and the shards need only the sizes of the cells, which the runs before them give.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.job_context import JobContext
from beam_jobs.stages.plan.balance import Balance
from beam_jobs.stages.plan.key_order import kept_rows
from beam_jobs.stages.plan.merge_levels import Level, MergeWork, part_of
from beam_jobs.stages.plan.state import PlanState
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.recipes import RecipeColumns, ShardSpec, recipe_units, write_recipe
from beam_jobs.staging.runs import Cell, Size
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_planned_marker, write_marker
from foundation import storage
from shard_format import naming
from shard_format.keys import UInt64Array

MERGE_PLAN = "merge.json"

# Raised whenever a task would write the same records as other bytes.
_RUN_VERSION = 1


class MergeTask(NamedTuple):
    """A run to write.

    Attributes:
        level: 1 for the first.
        group: Which of the groups of the level.
        bucket: Which of its buckets.
        key: Content address of the run.
        recipe: Recipe of a task of level 1, with the column "destination"; see `recipes.ShardSpec`.
        inputs: Inputs of a task of a further level.
        ends: End of every cell to write, one behind its last destination.
        records: Number of them.
    """

    level: int
    group: int
    bucket: int
    key: str
    recipe: str
    inputs: tuple[Cell, ...]
    ends: tuple[int, ...]
    records: int


class MergedRun(NamedTuple):
    """A run that was written, or found.

    Attributes:
        level: 1 for the first.
        group: Which of the groups of the level.
        bucket: Which of its buckets.
        key: Content address.
        sizes: [cells, 3] int64, little-endian, the `runs.Size` of each cell; of all runs of a
            level together, 300 MB for 100 TB.
    """

    level: int
    group: int
    bucket: int
    key: str
    sizes: bytes

    @classmethod
    def of(cls, task: MergeTask, sizes: Sequence[Size]) -> MergedRun:
        """The run of a task."""
        packed = np.array(sizes, "<i8").tobytes()
        return cls(task.level, task.group, task.bucket, task.key, packed)

    def cell(self, number: int) -> Cell:
        """One of its cells, which are in the order of their destinations."""
        sizes = np.frombuffer(self.sizes, "<i8").reshape(-1, 3)
        return Cell(self.key, int(sizes[:number, 1:].sum()), *sizes[number].tolist())


class MergePlan(NamedTuple):
    """What leads from units to shards; stored as merge.json.

    Attributes:
        levels: (groups, buckets) of each.
        recipes: (path, content address, records) for each group of level 1.
        name: Name of the set.
        num_shards: Number of shards of every split, in the order of destinations.
        records: Number of records of each shard, by destination.
        salt: What decides the bytes of every shard, besides its records; hexadecimal.
    """

    levels: list[tuple[int, int]]
    recipes: list[tuple[str, str, int]]
    name: str
    num_shards: dict[str, int]
    records: list[int]
    salt: str


def merge_work(state: PlanState) -> MergeWork:
    """How much there is to merge. A copy has rows like its record's."""
    sidecars = state.sidecars
    records = sum(split.records for split in state.splits)
    row_bytes = sum(table.nbytes for _, table in sidecars)
    return MergeWork(
        len(sidecars.keys),
        sum(state.num_shards.values()),
        records,
        sum(split.bytes for split in state.splits),
        row_bytes * max(records, sidecars.records) // max(1, sidecars.records),
    )


def write_merge_plan(state: PlanState, levels: Sequence[Level], salt: bytes) -> None:
    """Writes the recipes of level 1 and merge.json.

    Args:
        state: The plan, with the boundaries of shards.
        levels: At least one.
        salt: See MergePlan.
    """
    destinations = Destinations(
        [split.begins() if split.records else None for split in state.splits]
    )
    units = UnitGroups(state.context.workspace, state.sidecars, state.assignment, state.balance)
    counts = np.zeros(sum(state.num_shards.values()), np.int64)
    recipes = []
    for group in range(levels[0].groups):
        between = part_of(group, levels[0].groups, len(state.sidecars.keys))
        batch = units.records(between, destinations, state.recipe_columns)
        np.add.at(counts, batch["destination"].to_numpy(), 1)
        recipes.append(units.write_recipe(between, group, batch))
    store_merge_plan(state.context, levels, recipes, state.num_shards, counts, salt)


class UnitGroups:
    """Neighbouring units, which the first merge level turns into one run.

    Args:
        workspace: The build.
        sidecars: Staged units.
        assignment: The split of each of their records.
        balance: How often records occur; None for once.
    """

    def __init__(
        self,
        workspace: Workspace,
        sidecars: Sidecars,
        assignment: Assignment,
        balance: Balance | None,
    ) -> None:
        self._workspace = workspace
        self._sidecars = sidecars
        self._assignment = assignment
        self._balance = balance

    def records(
        self,
        units: tuple[int, int],
        destinations: Destinations,
        columns: RecipeColumns = lambda units, rows: {},
    ) -> pa.RecordBatch:
        """The recipe of some units: their records in a shard, each with its destination.

        Args:
            units: Numbers of the first one, and of the one behind the last.
            destinations: Where each record goes.
            columns: Further columns of the recipe.
        """
        parts = []
        for begin, table in self._sidecars.parts(*units):
            unit, above = self._sidecars.place_of(begin)
            split_of = self._assignment.of(begin, table)
            row, key = kept_rows(table, split_of, self._balance)
            parts.append(
                {
                    "unit": pa.array(np.full(len(row), unit - units[0], np.int32)),
                    "row": pa.array((above + row).astype(np.int32)),
                    "key": pa.array(key),
                    "destination": pa.array(destinations.of(split_of[row], key)),
                    **columns(np.full(len(row), unit), above + row),
                }
            )
        return _joined(parts)

    def write_recipe(
        self, units: tuple[int, int], group: int, batch: pa.RecordBatch
    ) -> tuple[str, str, int]:
        """Writes the recipe of a group of units; (path, content address, records)."""
        digest = hashlib.blake2b(f"{_RUN_VERSION} {batch.schema}".encode(), digest_size=16)
        digest.update(json.dumps(list(self._sidecars.keys[slice(*units)])).encode())
        digest.update(batch.serialize())
        path = self._workspace.plan / f"merge-{group:06d}.recipe"
        if len(batch):
            write_recipe(self._workspace, path, batch, recipe_units(self._sidecars)[slice(*units)])
        return str(path), digest.hexdigest(), len(batch)


def store_merge_plan(
    context: JobContext,
    levels: Sequence[Level],
    recipes: Sequence[tuple[str, str, int]],
    num_shards: Mapping[str, int],
    records: IntArray,
    salt: bytes,
) -> None:
    """Writes merge.json.

    Args:
        context: The job.
        levels: At least one.
        recipes: See MergePlan.
        num_shards: Number of shards of every split, in order.
        records: [shards] int64, number of records of each, over all splits.
        salt: See MergePlan.
    """
    storage.make_folder(context.workspace.runs)
    plan = MergePlan(
        [(level.groups, level.buckets) for level in levels],
        list(recipes),
        context.options.name,
        dict(num_shards),
        records.tolist(),
        salt.hex(),
    )
    write_marker(context.workspace, context.workspace.plan / MERGE_PLAN, plan._asdict())


def load_merge_plan(workspace: Workspace) -> MergePlan | None:
    """What `write_merge_plan` wrote; None if this build does not merge.

    Raises:
        InputError: It was damaged since.
    """
    place = workspace.plan / MERGE_PLAN
    try:
        return MergePlan(**read_planned_marker(place))
    except FileNotFoundError:
        return None


def merge_tasks(plan: MergePlan, level: int, runs: Sequence[MergedRun]) -> Iterator[MergeTask]:
    """The tasks of a level; none for what has no records, or for a level that there is not.

    Args:
        plan: The plan.
        level: 1 for the first.
        runs: Runs of the level before; none for level 1.
    """
    if level > len(plan.levels):
        return
    groups, buckets = plan.levels[level - 1]
    known = _by_place(runs)
    for bucket in range(buckets):
        ends = _ends(plan, level, bucket)
        for group in range(groups):
            cells: tuple[Cell, ...] = ()
            if level == 1:
                recipe, source, records = plan.recipes[group]
            else:
                cells, recipe = _inputs(plan, level, group, bucket, known), ""
                source, records = repr(cells), sum(cell.records for cell in cells)
            if records:
                text = f"{source} {level} {group} {bucket} {ends}"
                key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
                yield MergeTask(level, group, bucket, key, recipe, cells, ends, records)


def merged_shards(plan: MergePlan, runs: Sequence[MergedRun]) -> Iterator[ShardSpec]:
    """Every shard, from the runs of the last level."""
    known = _by_place(runs)
    groups, buckets = plan.levels[-1]
    numbered = (
        (split, shard) for split, count in plan.num_shards.items() for shard in range(count)
    )
    for bucket in range(buckets):
        first, last = part_of(bucket, buckets, len(plan.records))
        for number in range(first, last):
            split, shard = next(numbered)
            file = naming.shard_file(plan.name, split, shard, plan.num_shards[split])
            cells = _used(known, range(groups), bucket, number - first)
            digest = hashlib.blake2b(bytes.fromhex(plan.salt), digest_size=16)
            digest.update(f"{split} {shard} {cells}".encode())
            key = digest.hexdigest()
            yield ShardSpec(split, shard, file, "", key, plan.records[number], cells)


class Destinations:
    """From the split and the key of a record to the number of its shard over all splits.

    Args:
        begins: By split: [shards - 1] uint64, the first key of every shard but the first; None if
            it has no shard.
    """

    def __init__(self, begins: Sequence[UInt64Array | None]) -> None:
        self._begins = begins
        counts = [0 if one is None else 1 + len(one) for one in begins]
        self._first = np.cumsum([0, *counts])[:-1]

    def of(self, split: npt.NDArray[np.int8], key: UInt64Array) -> IntArray:
        """[n] int64, the destination of each record."""
        destination = np.zeros(len(key), np.int64)
        for number, begins in enumerate(self._begins):
            if begins is None:
                continue
            inside = split == number
            shard = np.searchsorted(begins, key[inside], side="right")
            destination[inside] = self._first[number] + shard
        return destination


_Runs = Mapping[tuple[int, int], MergedRun]


def _by_place(runs: Any) -> _Runs:
    return {(run.group, run.bucket): run for run in runs}


def _inputs(plan: MergePlan, level: int, group: int, bucket: int, runs: _Runs) -> tuple[Cell, ...]:
    (groups, buckets), (before, wide) = plan.levels[level - 1], plan.levels[level - 2]
    times = buckets // wide
    return _used(runs, range(*part_of(group, groups, before)), bucket // times, bucket % times)


def _used(runs: _Runs, groups: range, bucket: int, number: int) -> tuple[Cell, ...]:
    """The cells of this number in the runs of some groups that are not empty."""
    chosen = (runs.get((group, bucket)) for group in groups)
    cells = (run.cell(number) for run in chosen if run is not None)
    return tuple(cell for cell in cells if cell.records)


def _ends(plan: MergePlan, level: int, bucket: int) -> tuple[int, ...]:
    """Where the cells of a run end: at the buckets of the next level, or at every shard."""
    buckets, shards = plan.levels[level - 1][1], len(plan.records)
    if level == len(plan.levels):
        first, last = part_of(bucket, buckets, shards)
        return tuple(range(first + 1, last + 1))
    times = plan.levels[level][1] // buckets
    return tuple(
        part_of(next_bucket, buckets * times, shards)[1]
        for next_bucket in range(bucket * times, (bucket + 1) * times)
    )


def _joined(parts: list[dict[str, pa.Array]]) -> pa.RecordBatch:
    tables = [pa.table(part) for part in parts]
    table = pa.concat_tables(tables).combine_chunks()
    return pa.record_batch({name: table[name].combine_chunks() for name in table.column_names})
