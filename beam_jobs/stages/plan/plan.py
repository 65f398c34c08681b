"""Stage 3, plan: which record goes to which shard, from the sidecars alone.

The result is a recipe for every shard: (unit, row) of its records in final order. No payload is
read, and there is never one Python object per record. Memory is 3 bytes per record of the corpus
(4 with --where) and 1 kB per unit, measured (docs/memory.md); --duplicates keep, and groups with
--stratify take tens of bytes more per record each. Time is linear. What plans large corpora is in
`spread`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, int64
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_splits, splits_are_given
from beam_jobs.progress import report
from beam_jobs.record_types import RecordType
from beam_jobs.stages.labels import ClassCounts, class_counts, name_classes
from beam_jobs.stages.plan.against import NO_MATCHES, find_matches
from beam_jobs.stages.plan.appending import find_earlier
from beam_jobs.stages.plan.balance import balance, balance_notes
from beam_jobs.stages.plan.empty_splits import empty_split_warnings
from beam_jobs.stages.plan.excluded import find_excluded, leave_out_unselected
from beam_jobs.stages.plan.find_duplicates import (
    conflict_notes,
    find_duplicates,
    write_clusters,
)
from beam_jobs.stages.plan.key_order import SplitKeys, kept_rows, sorted_partitions
from beam_jobs.stages.plan.left_out import first_examples
from beam_jobs.stages.plan.list_duplicates import list_at_once
from beam_jobs.stages.plan.merge_levels import NO_MERGING, Merging, choose_levels
from beam_jobs.stages.plan.merge_plan import MERGE_PLAN, merge_work, write_merge_plan
from beam_jobs.stages.plan.quantiles import Quantiles, histogram_bits
from beam_jobs.stages.plan.repeated_ids import check_ids
from beam_jobs.stages.plan.splits import (
    Identity,
    by_corpus,
    by_fraction,
    check_clusters,
    group_conflicts,
    named_splits,
    refuse_conflicts,
    stratified,
)
from beam_jobs.stages.plan.state import PlanState
from beam_jobs.stages.plan.top import NOT_IN_TOP, leave_out_rest
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.assignment import (
    LEFT_OUT,
    SPLITS_FILE,
    Assignment,
    TrainingSample,
    first_rows,
    new_splits,
    sample_bytes,
    sample_rows,
)
from beam_jobs.staging.recipes import RecipeWriter, ShardSpec, recipe_units
from beam_jobs.staging.reordering import rows_of_partition
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.units import read_units
from beam_jobs.workspace import Workspace, read_batches, read_planned_marker, write_marker
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
        left_out: Examples of the records that --where and --top leave out, see `left_out`.
        excluded: Staged records that are kept out, see `excluded`.
        excluded_refused: Records that could not be used and are kept out, by reason.
        excluded_filtered: Records that a cleaning rule left out and that are kept out, by reason.
        repeated: Copies of records of small classes.
        counted: Sums over the kept records by the name of a ledger column, see `RecordType`.
        notes: What the user should know.
        warnings: What makes the set unfit for its use, most likely.
        settled: Decisions of the record type, see `RecordType.prepare_shared_artifacts`.
        cluster_files: Files with all clusters of duplicates, in the folder of the plan, with their
            SHA-256; "" where it is not known.
        duplicates_parts: Number of files of the duplicates; 0 without a cluster.
        stored_files: Bytes and SHA-256 by name of the parts of the stored records; empty where the
            commit writes them.
    """

    num_shards: dict[str, int]
    training: str
    class_names: dict[str, list[str]]
    duplicates: int
    filtered: dict[str, int]
    left_out: dict[str, list[dict[str, Any]]]
    excluded: int
    excluded_refused: dict[str, int]
    excluded_filtered: dict[str, int]
    repeated: int
    counted: dict[str, int]
    notes: list[str]
    warnings: list[str]
    settled: dict[str, Any]
    cluster_files: dict[str, str]
    duplicates_parts: int
    stored_files: Mapping[str, Any] = {}


def plan_shards(
    summaries: Sequence[UnitSummary],
    context: JobContext,
    merging: Merging = NO_MERGING,
    partition_rows: int | None = None,
) -> list[ShardSpec]:
    """Plans every shard and writes its recipe; if units are to be merged, the recipes of that.

    Args:
        summaries: Summaries of all units.
        context: The job.
        merging: Whether units may be merged before shards are written.
        partition_rows: About how many rows are held in memory at a time; None for as many as suit
            the corpus.

    Returns:
        All shards; none if units are to be merged first (`merge_plan`).

    Raises:
        InputError: A runner lost a unit, or given splits divide a group or a cluster.
    """
    state = _find_duplicates(summaries, context, partition_rows)
    _assign_splits(state)
    _balance(state)
    _cut_shards(state)
    plan = _write_plan(state)
    return _write_recipes(state, merging, shard_salt(context, plan))


def shard_salt(context: JobContext, plan: Plan) -> bytes:
    """What decides the bytes of every shard, besides its records."""
    record_type = context.record_type
    salt = [SHARD_VERSION, record_type.version, context.options.name, plan.class_names]
    salt += [context.options.sample_weight] * (context.options.sample_weight is not None)
    return json.dumps([*salt, plan.num_shards, record_type.shard_options(), plan.settled]).encode()


def _find_duplicates(
    summaries: Sequence[UnitSummary], context: JobContext, partition_rows: int | None
) -> PlanState:
    """Finds the records that are left out whatever their split, and their duplicates."""
    options, workspace = context.options, context.workspace
    check_complete(summaries, workspace)
    sidecars = Sidecars(workspace, summaries, partial(report, workspace.progress, "plan"))
    sidecars.fetch()
    report(workspace.progress, "plan", total=_work(sidecars, options, context.record_type))
    partition_rows = partition_rows or rows_of_partition(sidecars.records)
    excluded = find_excluded(summaries, sidecars, context)
    filtered, left_out = dict[str, int](), dict[str, list[dict[str, Any]]]()
    if options.where is not None:
        filtered["where"], examples = leave_out_unselected(sidecars, context)
        left_out["where"] = first_examples([examples])
    if options.id_column is not None:
        check_ids(sidecars, options.id_column, partition_rows)
    compares = options.against or options.matched
    matches = find_matches(sidecars, context) if compares else NO_MATCHES
    clusters = find_duplicates(sidecars, context, partition_rows)
    earlier = None
    if options.base:
        earlier = find_earlier(sidecars, clusters, context)
        clusters = earlier.related.clusters
        write_clusters(workspace, clusters.members.schema, [clusters.members])
    assignment = Assignment(new_splits(workspace.plan_file(SPLITS_FILE), sidecars.records))
    if sidecars.excluded is not None:
        assignment.split_of[sidecars.excluded] = LEFT_OUT
    for members in read_batches(workspace.clusters):
        assignment.split_of[int64(members.filter(members["dropped"])["record"])] = LEFT_OUT
    if options.top is not None:
        filtered[NOT_IN_TOP], examples = leave_out_rest(assignment, sidecars, context)
        left_out[NOT_IN_TOP] = first_examples([examples])
    job = (context, sidecars, partition_rows, excluded, matches, clusters, earlier, assignment)
    return PlanState(*job, filtered=filtered, left_out=left_out)


def _assign_splits(state: PlanState) -> None:
    """Assigns the splits and names the classes; what depends on splits may leave out records."""
    context, sidecars, assignment = state.context, state.sidecars, state.assignment
    _name_classes(state)
    if state.earlier is not None:
        state.class_names, state.notes = state.earlier.class_names(state.class_names)
    _assign(state)
    conflicts = state.earlier.assign(assignment, sidecars) if state.earlier is not None else 0
    state.assigned = assignment.counts()
    state.changes = context.record_type.plan_changes(
        sidecars, assignment, state.clusters, context.workspace, state.partition_rows
    )
    if state.changes is not None:
        state.clusters = state.changes.clusters
        members = state.clusters.members
        write_clusters(context.workspace, members.schema, [members])
        _name_classes(state)
        state.notes += state.changes.notes
        state.filtered |= state.changes.filtered
    state.filtered |= {
        "label-conflict": state.clusters.lost_to_conflict,
        "split-conflict": conflicts,
        **state.matches.filtered,
    }


def _balance(state: PlanState) -> None:
    """Repeats or leaves out records of the training split."""
    options, assignment, sidecars = state.context.options, state.assignment, state.sidecars
    if options.balance == "none" or not trains(assignment, options):
        return
    state.balance = balance(options.balance, assignment, sidecars, state.strata)
    if state.balance is not None:
        state.filtered["undersampled"] = state.balance.left_out
    state.notes += balance_notes(state.balance, appended=bool(options.base))


def _cut_shards(state: PlanState) -> None:
    """Counts the keys and bytes of every split, and chooses where its shards begin."""
    bits = histogram_bits(state.sidecars.records + state.copies)
    splits = state.splits = [SplitKeys(name, Quantiles(bits)) for name in state.assignment.names]
    for number, keys, lengths in _keys_by_split(state):
        splits[number].keys.count(keys)
        splits[number].bytes += int(lengths.sum())
    for split in splits:
        size = (split.name, split.records, split.bytes)
        state.num_shards[split.name] = shards_of(*size, state.context.options, state.notes)
        split.cut(state.num_shards[split.name])
    for number, keys, _ in _keys_by_split(state):
        splits[number].keys.collect(keys)


def _write_plan(state: PlanState) -> Plan:
    """Prepares what all shards share, and writes the plan for later stages."""
    options, record_type = state.context.options, state.context.record_type
    assignment, clusters, workspace = state.assignment, state.clusters, state.context.workspace
    sample = TrainingSample(
        partial(_sample, state),
        workspace,
        state.sidecars.records,
        int(assignment.counts()[assignment.training]),
        assignment.names[assignment.training],
    )
    settled, artifact_notes = record_type.prepare_shared_artifacts(workspace, sample)
    left_out = clusters.num_dropped - clusters.lost_to_conflict
    if len(state.matches.rows):
        state.matches.add_to_clusters(workspace)
    lists = len(clusters.members) or len(state.matches.rows)
    excluded = state.excluded
    plan = Plan(
        num_shards=state.num_shards,
        training=assignment.names[assignment.training],
        class_names=state.class_names,
        duplicates=left_out + (state.changes.duplicates if state.changes else 0),
        filtered={reason: count for reason, count in state.filtered.items() if count},
        left_out=state.left_out,
        excluded=excluded.staged,
        excluded_refused=excluded.refused,
        excluded_filtered=excluded.filtered,
        repeated=state.copies,
        counted=count_kept(assignment, state.sidecars, record_type),
        notes=[
            *conflict_notes(clusters.conflicts, clusters.number, options),
            *state.notes,
            *artifact_notes,
            *excluded.notes,
            *state.matches.notes,
        ],
        # A generation may be small: its splits are those of the set.
        warnings=[] if options.base else _empty_split_warnings(state),
        settled=settled,
        cluster_files={workspace.clusters.name: ""},
        duplicates_parts=list_at_once(state.context, state.sidecars, assignment) if lists else 0,
    )
    store_plan(workspace, plan)
    workspace.share_plan_file(SPLITS_FILE)
    return plan


def _sample(state: PlanState) -> pa.Table:
    size, assignment = state.context.record_type.sample_bytes, state.assignment
    sidecars = state.sidecars.without_progress()
    by_bin = sample_bytes(assignment, sidecars)
    return first_rows([sample_rows(assignment, sidecars, sidecars, by_bin, size)], size)


def store_plan(workspace: Workspace, plan: Plan) -> None:
    """Writes plan.json."""
    write_marker(workspace, workspace.plan / "plan.json", plan._asdict())


def _write_recipes(state: PlanState, merging: Merging, salt: bytes) -> list[ShardSpec]:
    """Writes the recipes of all shards, or those of the first merge level."""
    workspace = state.context.workspace
    work = merge_work(state) if merging.max_levels else None
    levels = choose_levels(work, merging) if work else ()
    records = sum(split.records for split in state.splits)
    if levels:
        report(workspace.progress, "merge", total=records * len(levels))
    report(workspace.progress, "shard", total=records)
    if levels:
        write_merge_plan(state, levels, salt)
        return []
    storage.delete(workspace.plan / MERGE_PLAN)  # of a build with other options
    writer = RecipeWriter(
        workspace,
        state.context.options.name,
        state.num_shards,
        recipe_units(state.sidecars),
        salt,
        state.recipe_columns,
    )
    begins = [split.begins() for split in state.splits]
    job = (state.sidecars, state.assignment, state.balance, state.splits, state.partition_rows)
    for rows in sorted_partitions(*job):
        for number, split in enumerate(state.splits):
            inside = rows.split == number
            keys = rows.key[inside]
            shard_of = np.searchsorted(begins[number], keys, side="right")
            writer.append(split.name, shard_of, rows.unit[inside], rows.row[inside], keys)
    return writer.finish()


def load_plan(workspace: Workspace) -> Plan:
    """The plan that `plan_shards` wrote.

    Raises:
        InputError: It was damaged since.
        FileNotFoundError: The output was removed.
    """
    return Plan(**read_planned_marker(workspace.plan / "plan.json"))


def check_complete(summaries: Sequence[UnitSummary], workspace: Workspace) -> None:
    """Checks that the runner neither lost nor repeated an element, and so records."""
    listed = sorted(unit.key for unit in read_units(workspace))
    staged = sorted(summary.key for summary in summaries)
    if listed != staged:
        raise InputError(
            f"The Beam runner lost or repeated work: {len(staged)} results for {len(listed)} "
            "units. Run the same command again, or without the Beam options that cause this."
        )


def _empty_split_warnings(state: PlanState) -> list[str]:
    sidecars = state.sidecars.without_progress()
    keep = state.context.options.duplicates == "keep"
    identity = Identity(sidecars, state.clusters if keep else None)
    return empty_split_warnings(state.context, state.assignment, sidecars, identity, state.assigned)


def _work(sidecars: Sidecars, options: PreprocessOptions, record_type: RecordType) -> int:
    """Rows that all passes over the sidecars read, for the progress bar."""
    passes = (
        5
        + (options.dedup != "off")
        + splits_are_given(options.split)
        + record_type.planning_passes
        + 3 * options.stratify
        + 2 * (options.balance != "none")
        + bool(record_type.ledger_columns)
    )
    return sidecars.records * passes


def _name_classes(state: PlanState) -> None:
    """Names the classes, and counts their records."""
    context, sidecars = state.context, state.sidecars
    features = ("label", *context.options.further_labels)
    staged: ClassCounts = {name: Counter() for name in features}
    kept: ClassCounts = {name: Counter() for name in features}
    for begin, table in sidecars:
        inside = state.assignment.of(begin, table) != LEFT_OUT
        included = pa.array(sidecars.included(begin, table))
        for name in features:
            column = table[label_column(name)]
            staged[name] += class_counts(column.filter(included))
            kept[name] += class_counts(column.filter(inside))
    state.class_names, state.notes = name_classes(staged, kept, top=context.options.top)
    state.class_counts = kept["label"]


def _assign(state: PlanState) -> None:
    """Assigns the split of every record."""
    options, clusters = state.context.options, state.clusters
    assignment, sidecars = state.assignment, state.sidecars
    if splits_are_given(options.split):
        groups = by_corpus(assignment, sidecars, named_splits(sidecars))
        refuse_conflicts(group_conflicts(*groups), assignment.names)
        if options.duplicates == "keep":
            check_clusters(assignment, clusters)
        assignment.names = assignment.names or ["train"]  # no record was usable
        return
    identity = Identity(sidecars, clusters if options.duplicates == "keep" else None)
    fractions = parse_splits(options.split)
    if options.stratify:
        stratified(assignment, sidecars, identity, fractions, state.strata)
    else:
        by_fraction(assignment, sidecars, identity, fractions)


def count_kept(
    assignment: Assignment, sidecars: Sidecars, record_type: RecordType
) -> dict[str, int]:
    """Sums over the kept records by the name of a ledger column."""
    names = [field.name for field in record_type.ledger_columns]
    counts = dict.fromkeys(names, 0)
    for begin, table in sidecars if names else ():
        kept = pa.array(assignment.of(begin, table) != LEFT_OUT)
        for name in names:
            counts[name] += pc.sum(table[name].filter(kept)).as_py() or 0
    return counts


def _keys_by_split(state: PlanState) -> Iterator[tuple[int, UInt64Array, IntArray]]:
    """(split, keys, lengths) of the records and their copies, part by part, for every split."""
    for begin, table in state.sidecars:
        split_of = state.assignment.of(begin, table)
        rows, keys = kept_rows(table, split_of, state.balance)
        lengths = int64(table["length"])
        for number in range(len(state.assignment.names)):
            inside = split_of[rows] == number
            yield number, keys[inside], lengths[rows[inside]]


def shards_of(
    split: str, records: int, size: int, options: PreprocessOptions, notes: list[str]
) -> int:
    """How many shards a split of so many records and bytes has; a note if fewer than asked for."""
    if not records:
        return 0  # `empty_split_warnings` says why
    if options.num_shards is None or options.base:
        shard_bytes = parse_size("--shard-size", options.shard_size)
        return min(records, max(1, round(size / shard_bytes)))
    if records < options.num_shards:
        notes.append(
            f"split {split!r} has {records} records, so {records} shards are written instead "
            f"of {options.num_shards}: no shard is empty"
        )
    return min(records, options.num_shards)


def trains(assignment: Assignment, options: PreprocessOptions) -> bool:
    """Whether there is a training split: evaluation must see the corpus unchanged.

    Raises:
        InputError: There is none. A generation may have records of other splits only.
    """
    trains = assignment.role(assignment.training) in ("train", "")
    if not trains and not options.base:
        raise InputError(
            f"--balance needs a training split, and there are only {', '.join(assignment.names)}. "
            "Leave --balance out, or correct --split."
        )
    return trains
