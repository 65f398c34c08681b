"""Stage 3, plan: which record goes to which shard, from the sidecars alone.

A recipe is written for every shard: (unit, row) of its records in final order. No payload is read
and there is never one Python object per record. What is held in memory per record of the corpus is
one byte; the rest is bounded by PARTITION_ROWS or by the number of duplicates, unless near
duplicates, --stratify or --balance are asked for (tens of bytes per record each).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, int64, uint64
from beam_jobs.corpus.names import SPLIT_NAMES
from beam_jobs.dedup.clusters import Clusters
from beam_jobs.dedup.find_duplicates import relate
from beam_jobs.dedup.text.repeated_segments import DroppedParts, drop_repeated_parts
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_splits, splits_are_given
from beam_jobs.progress import report
from beam_jobs.record_types import RecordType
from beam_jobs.stages.list import read_units
from beam_jobs.stages.plan.balance import NO_REPEATS, Repeats, balance
from beam_jobs.stages.plan.boundaries import Quantiles, histogram_bits
from beam_jobs.stages.plan.classes import names_in, sorted_names
from beam_jobs.stages.plan.key_order import SplitKeys, copies_of, sorted_partitions
from beam_jobs.stages.plan.recipes import RecipeWriter, ShardSpec
from beam_jobs.stages.plan.sample import TrainingSample
from beam_jobs.stages.plan.splits import (
    LEFT_OUT,
    Assignment,
    Identity,
    by_corpus,
    by_fraction,
    check_clusters,
    stratified,
    units_of,
)
from beam_jobs.stages.plan.warnings import balance_notes, cluster_notes, parts_notes
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.sidecars import PARTITION_ROWS, Sidecars
from beam_jobs.workspace import Workspace, write_json, write_table
from shard_format import InputError, storage
from shard_format.wording import parse_size

# Raised whenever the same plan would be written as other bytes by `sharding`.
SHARD_VERSION = 2


class Plan(NamedTuple):
    """What the later stages need to know of all shards; kept as plan.json.

    Attributes:
        num_shards: Per split, in the order they are written.
        training: The split that is trained on.
        class_names: Of the label, sorted; a label is an index into it.
        duplicates: Records left out because another one stands for them, or all their parts stand
            elsewhere.
        filtered: Records left out by a rule of planning, by reason.
        repeated: Copies of records of small classes.
        notes: What the user should be told.
        settled: What the record type decided, see `RecordType.settle`.
    """

    num_shards: dict[str, int]
    training: str
    class_names: list[str]
    duplicates: int
    filtered: dict[str, int]
    repeated: int
    notes: list[str]
    settled: dict[str, Any]


def plan_shards(
    summaries: Sequence[UnitSummary],
    options: PreprocessOptions,
    record_type: RecordType,
    workspace: Workspace,
    partition_rows: int = PARTITION_ROWS,
) -> list[ShardSpec]:
    """Plans every shard and writes its recipe.

    Args:
        summaries: Of all units.
        options: The job.
        record_type: Its record type.
        workspace: Where the sidecars are and the plan goes.
        partition_rows: About how many rows are held in memory at a time.

    Raises:
        InputError: A runner lost a unit, or groups or clusters and given splits contradict each
            other.
    """
    _check_complete(summaries, workspace)
    sidecars = Sidecars(workspace, summaries, partial(report, workspace.progress, "plan"))
    report(workspace.progress, "plan", total=_work(sidecars, options, partition_rows))
    clusters = relate(sidecars, options, record_type, partition_rows)
    write_table(workspace, workspace.clusters, clusters.members)

    assignment = Assignment(workspace.plan / "splits.npy", sidecars)
    assignment.split_of[clusters.dropped] = LEFT_OUT
    class_names, notes = _class_names(assignment, sidecars)
    _assign(assignment, sidecars, clusters, options, class_names)
    parts_kind, parts, emptied = getattr(options, "dedup_parts", "off"), None, 0
    if parts_kind != "off":
        # Last, for what stays depends on the splits, and only what is in one may keep a part.
        path = workspace.plan / "dropped-parts.bin"
        parts, emptied = drop_repeated_parts(sidecars, assignment, path, partition_rows)
        class_names, notes = _class_names(assignment, sidecars)
        notes += parts_notes(parts_kind, len(parts), emptied)
    repeats, undersampled = NO_REPEATS, 0
    if options.balance != "none":
        _check_trains(assignment)
        repeats, undersampled = balance(options.balance, assignment, sidecars, class_names)
        notes += balance_notes(repeats, undersampled)
    splits = _measure(assignment, sidecars, repeats)
    num_shards = {split.name: _num_shards(split, options, notes) for split in splits}
    _choose_boundaries(splits, num_shards, assignment, sidecars, repeats)

    sample = TrainingSample(assignment, Sidecars(workspace, summaries), workspace)
    settled = record_type.settle(workspace, sample)
    filtered = {"label-conflict": clusters.lost_to_conflict, "undersampled": undersampled}
    plan = Plan(
        num_shards=num_shards,
        training=assignment.names[assignment.training],
        class_names=class_names,
        duplicates=len(clusters.dropped) - clusters.lost_to_conflict + emptied,
        filtered={reason: count for reason, count in filtered.items() if count},
        repeated=repeats.total,
        notes=[*cluster_notes(clusters, options), *notes, *settled.notes],
        settled=dict(settled.config),
    )
    write_json(workspace, workspace.plan / "plan.json", plan._asdict())
    report(workspace.progress, "shard", total=sum(split.keys.records for split in splits))
    salt = [SHARD_VERSION, record_type.version, options.name, class_names, num_shards]
    salt += [record_type.shard_options(), plan.settled]
    writer = RecipeWriter(
        workspace,
        options.name,
        num_shards,
        sidecars.keys,
        json.dumps(salt).encode(),
        None if parts is None else partial(_parts_of, parts, sidecars),
    )
    begins = [split.keys.keys() for split in splits]
    for rows in sorted_partitions(sidecars, assignment, repeats, splits, partition_rows):
        for number, split in enumerate(splits):
            inside = rows.split == number
            keys = rows.key[inside]
            shard_of = np.searchsorted(begins[number], keys, side="right")
            writer.append(split.name, shard_of, rows.unit[inside], rows.row[inside], keys)
    return writer.finish()


def _parts_of(
    parts: DroppedParts, sidecars: Sidecars, units: IntArray, rows: IntArray
) -> pa.LargeListArray:
    """The parts to take out of each record of a recipe."""
    return parts.of(sidecars.begins[units] + rows)


def load_plan(workspace: Workspace) -> Plan:
    """The plan that `plan_shards` wrote."""
    return Plan(**json.loads(storage.read_bytes(workspace.plan / "plan.json")))


def _check_complete(summaries: Sequence[UnitSummary], workspace: Workspace) -> None:
    """A runner that loses or repeats an element must not lose or repeat records unnoticed."""
    listed = sorted(unit.key for unit in read_units(workspace))
    staged = sorted(summary.key for summary in summaries)
    if listed != staged:
        raise InputError(
            f"every unit must be staged once, got {len(staged)} results for {len(listed)} units. "
            "The Beam runner lost or repeated work: run the same command again, or without the "
            "Beam options that make it do so."
        )


def _work(sidecars: Sidecars, options: PreprocessOptions, partition_rows: int) -> int:
    """Rows that the passes over the sidecars will read, for the progress bar."""
    partitions = -(-sidecars.records // partition_rows)
    passes = (
        4
        + splits_are_given(options.split)
        + (options.dedup == "near")
        + 4 * (getattr(options, "dedup_parts", "off") != "off")
        + (options.balance != "none")
        + partitions * (1 + (options.dedup != "off"))
    )
    return sidecars.records * passes


def _class_names(assignment: Assignment, sidecars: Sidecars) -> tuple[list[str], list[str]]:
    """The classes of what is kept, and a note if one has vanished with its duplicates."""
    staged: set[str] = set()
    kept: set[str] = set()
    for unit, table in sidecars:
        staged |= names_in(table["label"])
        kept |= names_in(table["label"].filter(assignment.unit(unit) != LEFT_OUT))
    lost = sorted_names(staged - kept)
    notes = []
    if lost:
        shown = ", ".join(repr(name) for name in lost[:5])
        notes.append(
            f"{len(lost)} classes are left without a record, since all of theirs are duplicates "
            f"of other classes: {shown}{', ...' if len(lost) > 5 else ''}"
        )
    return sorted_names(kept), notes


def _assign(
    assignment: Assignment,
    sidecars: Sidecars,
    clusters: Clusters,
    options: PreprocessOptions,
    class_names: list[str],
) -> None:
    if splits_are_given(options.split):
        by_corpus(assignment, sidecars)
        if options.duplicates == "keep":
            check_clusters(assignment, clusters)
        assignment.names = assignment.names or ["train"]  # nothing could be used at all
        return
    identity = Identity(sidecars, clusters if options.duplicates == "keep" else None)
    fractions = parse_splits(options.split)
    if options.stratify:
        stratified(assignment, sidecars, identity, fractions, class_names)
    else:
        by_fraction(assignment, sidecars, identity, fractions)


def _measure(assignment: Assignment, sidecars: Sidecars, repeats: Repeats) -> list[SplitKeys]:
    """Counts the keys of every split, and its bytes."""
    bits = histogram_bits(sidecars.records + repeats.total)
    splits = [SplitKeys(name, Quantiles(bits)) for name in assignment.names]
    for unit, table, split_of in units_of(assignment, sidecars):
        keys, lengths = uint64(table["key"]), int64(table["length"])
        copied, copy_key = copies_of(unit, keys, sidecars, repeats)
        for number, split in enumerate(splits):
            inside = split_of == number
            split.keys.count(keys[inside])
            split.bytes += int(lengths[inside].sum())
            own = copied[split_of[copied] == number]
            split.keys.count(copy_key[split_of[copied] == number])
            split.bytes += int(lengths[own].sum())
    return splits


def _choose_boundaries(
    splits: list[SplitKeys],
    num_shards: dict[str, int],
    assignment: Assignment,
    sidecars: Sidecars,
    repeats: Repeats,
) -> None:
    for split in splits:
        split.keys.choose(num_shards[split.name])
    for unit, table, split_of in units_of(assignment, sidecars):
        keys = uint64(table["key"])
        copied, copy_key = copies_of(unit, keys, sidecars, repeats)
        for number, split in enumerate(splits):
            split.keys.collect(keys[split_of == number])
            split.keys.collect(copy_key[split_of[copied] == number])


def _num_shards(split: SplitKeys, options: PreprocessOptions, notes: list[str]) -> int:
    records = split.keys.records
    if not records:
        notes.append(f"split {split.name!r} got no record, so it has no shard")
        return 0
    if options.num_shards is None:
        shard_bytes = parse_size("--shard-size", options.shard_size)
        return min(records, max(1, round(split.bytes / shard_bytes)))
    if records < options.num_shards:
        notes.append(
            f"split {split.name!r} has {records} records, so {records} shards are written instead "
            f"of {options.num_shards}: no shard is empty"
        )
    return min(records, options.num_shards)


def _check_trains(assignment: Assignment) -> None:
    """Evaluation must see a corpus as it is, so there must be something else to balance."""
    name = assignment.names[assignment.training]
    if SPLIT_NAMES.get(name, "train") != "train":
        raise InputError(
            f"--balance changes the training split, got none among {', '.join(assignment.names)}. "
            "Leave --balance out, or correct --split."
        )
