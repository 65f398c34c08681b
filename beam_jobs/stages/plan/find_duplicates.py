"""Exact and near duplicates of a corpus, joined to clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.dedup.clusters import (
    CLUSTER_ORDER,
    CLUSTER_SCHEMA,
    MEMBER_COLUMNS,
    NO_NEAR_PAIRS,
    Clusters,
    find_clusters,
    whole_clusters,
)
from beam_jobs.dedup.exact import (
    FINGERPRINT,
    NO_PAIRS,
    Confirm,
    exact_pairs,
    pairs_among,
    repeated_rows,
)
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.selection import best_column
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_table
from foundation.storage import Place

_BATCH_ROWS = 1 << 11  # a MiB


def find_duplicates(sidecars: Sidecars, context: JobContext, rows: int) -> Clusters:
    """Finds the duplicates that the options ask for, and writes `workspace.clusters`.

    Of near duplicates only the pairs are held in memory, since what connects them is known only at
    the end.

    Args:
        sidecars: All staged units.
        context: The job; its record type confirms exact duplicates and finds near ones.
        rows: About how many are compared at a time.
    """
    options, record_type, workspace = context.options, context.record_type, context.workspace
    confirm = record_type.confirm and partial(confirmed, sidecars, record_type.confirm)
    if options.dedup == "exact":
        columns = {"fingerprint": FINGERPRINT, **member_columns(context)}
        parts = exact_clusters(repeated_rows(sidecars, columns, rows), context, confirm)
    else:
        parts = _near_clusters(sidecars, context, confirm, rows)
    clusters = sort_clusters(parts, workspace)
    return clusters._replace(members=read_table(workspace.clusters))


def _near_clusters(
    sidecars: Sidecars, context: JobContext, confirm: Confirm | None, rows: int
) -> Iterator[Clusters]:
    """The clusters of exact and near duplicates, some at a time; none with --dedup off."""
    options, exact, near = context.options, NO_PAIRS, NO_NEAR_PAIRS
    if options.dedup == "near" and sidecars.records:
        exact = exact_pairs(sidecars, confirm, rows)
        # Of exact duplicates only the first record is compared.
        compared = sidecars.without(np.unique(exact[:, 1]))
        near = context.record_type.near_duplicates(compared)
    members_of = partial(sidecars.take, columns=list(member_columns(context)))
    for equal, alike in whole_clusters(exact, near):
        yield find_clusters(members_of, equal, alike, **cluster_rules(context))


def cluster_rules(context: JobContext) -> dict[str, Any]:
    """What the options say about the records of a cluster, for `find_clusters`."""
    options = context.options
    best = best_column(options, context.record_type) if options.keep_best else None
    return {
        "keep_all": options.duplicates == "keep",
        "drop_conflicts": options.conflicts == "drop",
        "best": best and best.name,
    }


def member_columns(context: JobContext) -> dict[str, pa.DataType]:
    """What decides about members of a cluster: MEMBER_COLUMNS, and the column of --keep-best."""
    options = context.options
    best = best_column(options, context.record_type) if options.keep_best else None
    return MEMBER_COLUMNS | ({best.name: best.type} if best else {})


def write_clusters(
    workspace: Workspace, schema: pa.Schema, tables: Iterable[pa.Table], place: Place | None = None
) -> None:
    """Writes a file of clusters, which the commit reads a batch at a time."""
    with (
        workspace.write_arrow(place or workspace.clusters) as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for table in tables:
            writer.write_table(table, max_chunksize=_BATCH_ROWS)


def exact_clusters(
    parts: Iterable[pa.Table], context: JobContext, confirm: Confirm | None
) -> Iterator[Clusters]:
    """The clusters of exact duplicates in each part of `repeated_rows`."""
    for part in parts:
        pairs = pairs_among(part, confirm)
        yield find_clusters(partial(rows_of, part), pairs, NO_NEAR_PAIRS, **cluster_rules(context))


def sort_clusters(
    parts: Iterable[Clusters], workspace: Workspace, place: Place | None = None
) -> Clusters:
    """Sorts clusters of any number in a file; no part has a record in common with another.

    Returns:
        The numbers of them, without members.
    """
    dropped = conflicts = lost = 0
    with closing(RowSorter(workspace.scratch_file(), CLUSTER_SCHEMA, CLUSTER_ORDER)) as rows:
        for part in parts:
            dropped += part.num_dropped
            conflicts += part.conflicts
            lost += part.lost_to_conflict
            rows.append(part.members)
        write_clusters(workspace, CLUSTER_SCHEMA, rows.in_order(), place)
    return Clusters(CLUSTER_SCHEMA.empty_table(), dropped, conflicts, lost)


def rows_of(part: pa.Table, records: IntArray) -> pa.Table:
    """Rows of some records, which are all in the part."""
    numbers = int64(part["record"])
    order = np.argsort(numbers)
    return part.take(pa.array(order[np.searchsorted(numbers[order], records)]))


def confirmed(
    sidecars: Sidecars, confirm: Callable[[Mapping[str, Any]], bytes], records: IntArray
) -> npt.NDArray[np.uint8]:
    """[n, 16] uint8, computed from the payload of the few records that need it."""
    digests = list(map(confirm, sidecars.examples(records)))
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)


def conflict_notes(conflicts: int, clusters: int, options: PreprocessOptions) -> list[str]:
    """A note if so many of the clusters have different labels."""
    if not conflicts:
        return []
    what = {
        ("drop", "keep"): "one record of each is kept; --conflicts drop leaves them out",
        ("drop", "drop"): "they are left out",
    }.get((options.duplicates, options.conflicts), "all their records are kept")
    return [
        f"{conflicts} of {clusters} duplicate clusters have contradictory labels: "
        f"{what} (the duplicates of the set list them)"
    ]
