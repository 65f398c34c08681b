"""Why a split that was asked for has no record, for the end of the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_splits, splits_are_given
from beam_jobs.stages.labels import class_counts
from beam_jobs.stages.plan.splits import Identity
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.listed_items import listed_batches
from beam_jobs.workspace import Workspace
from foundation.wording import counted

# The parts of all sidecars, for any number of passes.
Parts = Iterable[tuple[int, pa.Table]]


def empty_split_warnings(
    context: JobContext,
    assignment: Assignment,
    sidecars: Parts,
    identity: Identity,
    assigned: IntArray,
) -> list[str]:
    """A sentence for every split without records: which one, why, and what to do.

    There is none if no record at all is kept, which is an error of its own.

    Args:
        context: The job.
        assignment: The final splits.
        sidecars: All staged units.
        identity: What stays together.
        assigned: [splits] int64, records of each before any were left out for their parts.
    """
    options, kept = context.options, assignment.counts()
    if not kept.any():
        return []
    if splits_are_given(options.split):
        return _given(assignment, kept, sidecars, context.workspace)
    warnings = []
    for (name, fraction), count, before in zip(
        parse_splits(options.split).items(), kept.tolist(), assigned.tolist(), strict=True
    ):
        if count:
            continue
        if before:
            cause = (
                f"--dedup-parts leaves nothing of its {counted(before, 'record')}. Use a larger "
                "fraction, or leave --dedup-parts out."
            )
        elif options.stratify:
            cause = _stratified(fraction, assignment, sidecars, identity)
        else:
            cause = _by_hash(fraction, assignment, sidecars, identity, options)
        warnings.append(f"Split {name!r} is empty: {cause}")
    return warnings


def _stratified(
    fraction: float, assignment: Assignment, sidecars: Parts, identity: Identity
) -> str:
    classes: Counter[str] = Counter()
    for begin, table in sidecars:
        inside = pa.array(assignment.of(begin, table) != LEFT_OUT)
        classes += class_counts(table["label"].filter(inside))
    together, records = _together(assignment, sidecars, identity), int(assignment.counts().sum())
    most = counted(max(classes.values(), default=records), "record")
    largest = f"the largest of {len(classes):,} classes has" if len(classes) > 1 else "there are"
    groups = f"; records that stay together make {counted(together, 'group')}"
    return (
        f"--stratify gives it {fraction:g} of each class, rounded to records, and {largest} "
        f"{most}{groups if together < records else ''}. Use fewer splits, a larger fraction, or "
        "leave out --stratify."
    )


def _by_hash(
    fraction: float,
    assignment: Assignment,
    sidecars: Parts,
    identity: Identity,
    options: PreprocessOptions,
) -> str:
    together = _together(assignment, sidecars, identity)
    records = int(assignment.counts().sum())
    advice = "Use fewer splits, a larger fraction, or more records."
    if together == records:
        return (
            f"records are assigned by a hash, and none of {counted(records, 'record')} falls into "
            f"its fraction of {fraction:g}. {advice}"
        )
    flag = f"--group-by {options.group_by}" if options.group_by else "--duplicates keep"
    return (
        f"{flag} makes {counted(together, 'group')} of {records:,} records, and none of them falls "
        f"into its fraction of {fraction:g}. {advice}"
    )


def _together(assignment: Assignment, sidecars: Parts, identity: Identity) -> int:
    """Number of groups that stay together; a record without others is one, too."""
    groups = [np.zeros(0, np.uint64)]
    for begin, table in sidecars:
        inside = assignment.of(begin, table) != LEFT_OUT
        groups.append(np.unique(identity(table.select(["id_hash", "group"]))[inside]))
    return len(np.unique(np.concatenate(groups)))


def _given(
    assignment: Assignment, kept: IntArray, sidecars: Parts, workspace: Workspace
) -> list[str]:
    """Of the splits that folders, or the rows of --labels, name."""
    listed = {
        name
        for batch in listed_batches(workspace)
        for name in pc.unique(batch["split"]).drop_null().to_pylist()
    }
    full = {name for name, count in zip(assignment.names, kept.tolist(), strict=True) if count}
    empty = sorted({*listed, *assignment.names} - full)
    staged = dict.fromkeys(empty, 0)
    for _, table in sidecars if empty else ():
        for name in empty:
            staged[name] += pc.sum(pc.equal(table["split"], name)).as_py() or 0
    return [
        f"Split {name!r} is empty: "
        + (
            f"{counted(staged[name], 'record')} of it can be used, but all are left out as "
            "duplicates (the duplicates of the set list them). Remove the copies from the other "
            "splits, or use --dedup off."
            if staged[name]
            else "no file of it has a record that can be used. 'shardmill quarantine list "
            f"{workspace.out}' lists the reasons."
        )
        for name in empty
    ]
