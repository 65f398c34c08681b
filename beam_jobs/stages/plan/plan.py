"""Stage 3, plan: which record goes to which shard, from the sidecars alone.

The result is a recipe for every shard: (unit, row) of its records in final order. No payload is
read, and there is never one Python object per record. Memory is one byte per record of the corpus;
the rest is bounded by the rows of a partition or by the number of units, except with near
duplicates, --duplicates keep, --stratify or --balance (tens of bytes per record each). Time is
linear.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, int64, uint64
from beam_jobs.dedup.clusters import Clusters
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_splits, splits_are_given
from beam_jobs.progress import report
from beam_jobs.record_types import RecordType
from beam_jobs.stages.labels import names_in, sorted_names
from beam_jobs.stages.list import read_units
from beam_jobs.stages.plan.appending import find_earlier
from beam_jobs.stages.plan.balance import (
    NO_REPEATS,
    Repeats,
    balance,
    balance_notes,
    generation_note,
)
from beam_jobs.stages.plan.boundaries import Quantiles, histogram_bits
from beam_jobs.stages.plan.empty_splits import empty_split_warnings, split_counts
from beam_jobs.stages.plan.excluded import find_excluded
from beam_jobs.stages.plan.find_duplicates import (
    conflict_notes,
    find_duplicates,
    write_clusters,
)
from beam_jobs.stages.plan.key_order import Rows, SplitKeys, copies_of, sorted_partitions
from beam_jobs.stages.plan.merge_levels import NO_MERGING, Merging, choose_levels
from beam_jobs.stages.plan.merge_plan import MERGE_PLAN, merge_work, write_merge_plan
from beam_jobs.stages.plan.recipes import RecipeWriter, ShardSpec
from beam_jobs.stages.plan.splits import (
    Identity,
    by_corpus,
    by_fraction,
    check_clusters,
    stratified,
)
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.assignment import LEFT_OUT, SPLITS_FILE, Assignment
from beam_jobs.staging.partitions import rows_of_partition
from beam_jobs.staging.recipes import recipe_units
from beam_jobs.staging.sample import TrainingSample
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_batches, read_marker, write_marker
from foundation import storage
from foundation.wording import parse_size
from shard_format import InputError, label_column
from shard_format.keys import UInt64Array

# Raised whenever `stages/shard.py` would write the same plan as other bytes.
SHARD_VERSION = 2


class Plan(NamedTuple):
    """What later stages need to know about all shards; stored as plan.json.

    Attributes:
        num_shards: Per split, in the order they are written.
        training: The split to train on.
        class_names: By label feature ("label" is the main one), sorted; a label is an index into
            them.
        duplicates: Records left out because another one, or all their content, is kept elsewhere.
        filtered: Records left out by a rule of planning, by reason.
        excluded: Staged records that are kept out, see `excluded`.
        excluded_refused: Records that could not be used and are kept out, by reason.
        excluded_filtered: Records that a cleaning rule left out and that are kept out, by reason.
        repeated: Copies of records of small classes.
        counted: Number of kept records by the name of a ledger column, see `RecordType`.
        notes: What the user should know.
        warnings: What makes the set unfit for its use, most likely.
        settled: What the record type decided, see `RecordType.prepare_shared_artifacts`.
    """

    num_shards: dict[str, int]
    training: str
    class_names: dict[str, list[str]]
    duplicates: int
    filtered: dict[str, int]
    excluded: int
    excluded_refused: dict[str, int]
    excluded_filtered: dict[str, int]
    repeated: int
    counted: dict[str, int]
    notes: list[str]
    warnings: list[str]
    settled: dict[str, Any]


def plan_shards(
    summaries: Sequence[UnitSummary],
    context: JobContext,
    merging: Merging = NO_MERGING,
    partition_rows: int | None = None,
) -> list[ShardSpec]:
    """Plans every shard and writes its recipe; if units are to be merged, the recipes of that.

    Args:
        summaries: Of all units.
        context: The job.
        merging: Whether units may be merged before shards are written.
        partition_rows: About how many rows are held in memory at a time; None for as many as suit
            the corpus.

    Returns:
        All shards; none if units are to be merged first (`merge_plan`).

    Raises:
        InputError: A runner lost a unit, or given splits divide a group or a cluster.
    """
    options, record_type, workspace = context.options, context.record_type, context.workspace
    _check_complete(summaries, workspace)
    sidecars = Sidecars(workspace, summaries, partial(report, workspace.progress, "plan"))
    sidecars.fetch()
    report(workspace.progress, "plan", total=_work(sidecars, options, record_type))
    partition_rows = partition_rows or rows_of_partition(sidecars.records)
    excluded = find_excluded(summaries, sidecars, context)
    clusters = find_duplicates(sidecars, context, partition_rows)
    earlier = None
    if options.base:
        earlier = find_earlier(sidecars, clusters, context)
        clusters = earlier.related.clusters
        write_clusters(workspace, clusters.members.schema, [clusters.members])

    assignment = Assignment(workspace.plan_file(SPLITS_FILE), sidecars)
    if sidecars.excluded is not None:
        assignment.split_of[sidecars.excluded] = LEFT_OUT
    for members in read_batches(workspace.clusters):
        assignment.split_of[int64(members.filter(members["dropped"])["record"])] = LEFT_OUT
    class_names, notes = _class_names(assignment, sidecars, options)
    if earlier is not None:
        class_names, notes = earlier.class_names(class_names)
    _assign(assignment, sidecars, clusters, options, class_names["label"])
    torn = earlier.assign(assignment, sidecars) if earlier is not None else 0
    assigned = split_counts(assignment)
    changes = record_type.plan_changes(sidecars, assignment, clusters, workspace, partition_rows)
    if changes is not None:
        clusters = changes.clusters
        write_clusters(workspace, clusters.members.schema, [clusters.members])
        class_names, notes = _class_names(assignment, sidecars, options)
        notes += changes.notes
    repeats, undersampled = NO_REPEATS, 0
    if options.balance != "none" and _trains(assignment, options):
        main = class_names["label"]
        repeats, undersampled = balance(options.balance, assignment, sidecars, main)
        notes += balance_notes(repeats, undersampled)
        notes += generation_note(main, assignment, sidecars) if options.base else []
    splits = _measure(assignment, sidecars, repeats)
    num_shards = {split.name: _num_shards(split, options, notes) for split in splits}
    _choose_boundaries(splits, num_shards, assignment, sidecars, repeats)

    sample = TrainingSample(assignment, sidecars.without_progress(), workspace)
    settled, artifact_notes = record_type.prepare_shared_artifacts(workspace, sample)
    filtered = {"label-conflict": clusters.lost_to_conflict, "undersampled": undersampled}
    filtered |= changes.filtered if changes else {}
    filtered["split-conflict"] = torn
    plan = Plan(
        num_shards=num_shards,
        training=assignment.names[assignment.training],
        class_names=class_names,
        duplicates=clusters.num_dropped
        - clusters.lost_to_conflict
        + (changes.duplicates if changes else 0),
        filtered={reason: count for reason, count in filtered.items() if count},
        excluded=excluded.staged,
        excluded_refused=excluded.refused,
        excluded_filtered=excluded.filtered,
        repeated=repeats.total,
        counted=_count_kept(assignment, sidecars, record_type),
        notes=[
            *conflict_notes(clusters, options),
            *notes,
            *artifact_notes,
            *excluded.notes,
        ],
        # A generation may be small: its splits are those of the set.
        warnings=[]
        if options.base
        else empty_split_warnings(
            assignment, assigned, sidecars.without_progress(), clusters, options, workspace
        ),
        settled=settled,
    )
    write_marker(workspace, workspace.plan / "plan.json", plan._asdict())
    workspace.share_plan_file(SPLITS_FILE)
    work = merge_work(sidecars, splits, sum(num_shards.values())) if merging.max_levels else None
    levels = choose_levels(work, merging) if work else ()
    records = sum(split.keys.records for split in splits)
    if levels:
        report(workspace.progress, "merge", total=records * len(levels))
    report(workspace.progress, "shard", total=records)
    salt = [SHARD_VERSION, record_type.version, options.name, class_names, num_shards]
    salt += [record_type.shard_options(), plan.settled]
    key_salt = json.dumps(salt).encode()

    def columns(units: IntArray, rows: IntArray) -> Mapping[str, pa.Array]:
        return changes.recipe_columns(sidecars.begins[units] + rows) if changes else {}

    if levels:
        write_merge_plan(
            workspace,
            levels,
            sidecars,
            assignment,
            repeats,
            splits,
            num_shards,
            options.name,
            key_salt,
            columns,
        )
        return []
    storage.delete(workspace.plan / MERGE_PLAN)  # of a build with other options
    writer = RecipeWriter(
        workspace, options.name, num_shards, recipe_units(sidecars), key_salt, columns
    )
    partitions = sorted_partitions(sidecars, assignment, repeats, splits, partition_rows)
    return _write_recipes(writer, partitions, splits)


def load_plan(workspace: Workspace) -> Plan:
    """The plan that `plan_shards` wrote.

    Raises:
        InputError: It was damaged since.
        FileNotFoundError: The output was removed.
    """
    place = workspace.plan / "plan.json"
    plan = read_marker(place)
    if plan is None:
        storage.read_bytes(place)  # raises where there is none
        raise InputError(
            f"The plan {place} was damaged during the build. Run the same command again."
        )
    return Plan(**plan)


def _check_complete(summaries: Sequence[UnitSummary], workspace: Workspace) -> None:
    """Checks that the runner neither lost nor repeated an element, and so records."""
    listed = sorted(unit.key for unit in read_units(workspace))
    staged = sorted(summary.key for summary in summaries)
    if listed != staged:
        raise InputError(
            f"The Beam runner lost or repeated work: {len(staged)} results for {len(listed)} "
            "units. Run the same command again, or without the Beam options that cause this."
        )


def _work(sidecars: Sidecars, options: PreprocessOptions, record_type: RecordType) -> int:
    """Rows that all passes over the sidecars read, for the progress bar."""
    passes = (
        5
        + (options.dedup != "off")
        + splits_are_given(options.split)
        + record_type.planning_passes
        + (options.balance != "none")
        + bool(record_type.ledger_columns)
    )
    return sidecars.records * passes


def _class_names(
    assignment: Assignment, sidecars: Sidecars, options: PreprocessOptions
) -> tuple[dict[str, list[str]], list[str]]:
    """The classes of the kept records, and a note if duplicates were all records of a class."""
    features = ("label", *options.further_labels)
    staged: dict[str, set[str]] = {name: set() for name in features}
    kept: dict[str, set[str]] = {name: set() for name in features}
    for unit, table in sidecars:
        inside = assignment.unit(unit) != LEFT_OUT
        included = pa.array(sidecars.included(unit))
        for name in features:
            column = table[label_column(name)]
            staged[name] |= names_in(column.filter(included))
            kept[name] |= names_in(column.filter(inside))
    notes = []
    for name in features:
        lost = sorted_names(staged[name] - kept[name])
        if lost:
            shown = ", ".join(repr(one) for one in lost[:5])
            of_label = "" if name == "label" else f" of {name!r}"
            notes.append(
                f"{len(lost)} classes{of_label} have no record left, since all of theirs are "
                f"duplicates of other classes: {shown}{', ...' if len(lost) > 5 else ''}"
            )
    return {name: sorted_names(names) for name, names in kept.items()}, notes


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
        assignment.names = assignment.names or ["train"]  # no record was usable
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
    for number, keys, lengths in _keys_by_split(assignment, sidecars, repeats):
        splits[number].keys.count(keys)
        splits[number].bytes += int(lengths.sum())
    return splits


def _count_kept(
    assignment: Assignment, sidecars: Sidecars, record_type: RecordType
) -> dict[str, int]:
    names = [field.name for field in record_type.ledger_columns]
    counts = dict.fromkeys(names, 0)
    for unit, table in sidecars if names else ():
        kept = pa.array(assignment.unit(unit) != LEFT_OUT)
        for name in names:
            counts[name] += pc.sum(pc.and_(table[name], kept)).as_py() or 0
    return counts


def _choose_boundaries(
    splits: list[SplitKeys],
    num_shards: dict[str, int],
    assignment: Assignment,
    sidecars: Sidecars,
    repeats: Repeats,
) -> None:
    for split in splits:
        split.keys.choose(num_shards[split.name])
    for number, keys, _ in _keys_by_split(assignment, sidecars, repeats):
        splits[number].keys.collect(keys)


def _keys_by_split(
    assignment: Assignment, sidecars: Sidecars, repeats: Repeats
) -> Iterator[tuple[int, UInt64Array, IntArray]]:
    """(split, keys, lengths) of the records and their copies, for every unit and split."""
    for unit, table, split_of in assignment.units(sidecars):
        keys, lengths = uint64(table["key"]), int64(table["length"])
        copied, copy_keys = copies_of(unit, keys, sidecars, repeats)
        rows = np.concatenate((np.arange(len(keys)), copied))
        keys = np.concatenate((keys, copy_keys))
        for number in range(len(assignment.names)):
            inside = split_of[rows] == number
            yield number, keys[inside], lengths[rows[inside]]


def _num_shards(split: SplitKeys, options: PreprocessOptions, notes: list[str]) -> int:
    records = split.keys.records
    if not records:
        return 0  # `empty_split_warnings` says why
    if options.num_shards is None or options.base:
        shard_bytes = parse_size("--shard-size", options.shard_size)
        return min(records, max(1, round(split.bytes / shard_bytes)))
    if records < options.num_shards:
        notes.append(
            f"split {split.name!r} has {records} records, so {records} shards are written instead "
            f"of {options.num_shards}: no shard is empty"
        )
    return min(records, options.num_shards)


def _trains(assignment: Assignment, options: PreprocessOptions) -> bool:
    """Whether there is a training split: evaluation must see the corpus unchanged.

    Raises:
        InputError: There is none. A generation may have records of other splits only.
    """
    found = assignment.role(assignment.training) in ("train", "")
    if not found and not options.base:
        raise InputError(
            f"--balance needs a training split, and there are only {', '.join(assignment.names)}. "
            "Leave --balance out, or correct --split."
        )
    return found


def _write_recipes(
    writer: RecipeWriter, partitions: Iterator[Rows], splits: list[SplitKeys]
) -> list[ShardSpec]:
    begins = [split.keys.keys() for split in splits]
    for rows in partitions:
        for number, split in enumerate(splits):
            inside = rows.split == number
            keys = rows.key[inside]
            shard_of = np.searchsorted(begins[number], keys, side="right")
            writer.append(split.name, shard_of, rows.unit[inside], rows.row[inside], keys)
    return writer.finish()
