"""The duplicates of a set, from ranges of the fingerprint to the workers that write their parts.

The worker of a range has whole clusters, and sends their rows. The splits of the kept records come
from the workers that have these records, once no split changes any more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.plan.list_duplicates import (
    KEPT_RECORD,
    KEPT_SPLIT,
    KEPT_SPLITS,
    LISTED,
    kept_splits,
    list_rows,
    send_rows,
)
from beam_jobs.stages.plan.spread import stored
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.duplicates import clusters_of
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.sidecars import Sidecars, rows_among
from shard_format.duplicates import parts_of_hashes


def list_duplicates(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the rows of the clusters of a range of fingerprints to the parts of the duplicates.

    Ranges of units get what their stored records say of these clusters.
    """
    parts = plan.decisions.duplicates_parts
    if not parts:
        return {}
    with clusters_of(plan, number) as clusters:
        previews_of = partial(_previews, plan)
        rows = list_rows(
            clusters, plan.decisions.previewed, previews_of, lambda records: records, np.int64
        )
        tables = (
            table.append_column(KEPT_RECORD, pa.array(kept, mask=kept < 0)) for table, kept in rows
        )
        sizes = {LISTED: send_rows(plan.workspace, number, tables, parts)}
        return {"sizes": sizes | stored.send_kept_ids(plan, number, clusters)}


def save_kept_records(plan: SpreadPlan, number: int, kept: IntArray) -> None:
    """Saves which records of a range of units are kept for others, [n] int64, ascending."""
    plan.save(_kept_records(number), kept)


def send_splits(
    plan: SpreadPlan, number: int, columns: Sidecars, assignment: Assignment
) -> dict[str, bytes]:
    """Sends the splits of the kept records of a range of units; returns the sizes."""
    parts = plan.decisions.duplicates_parts
    if not parts:
        return {}
    kept, before = plan.load(_kept_records(number), np.int64), plan.begins[number]
    with plan.partitions(KEPT_SPLIT, parts) as partitions:
        for begin, table in columns.without_progress():
            inside, rows = rows_among(kept, begin, table)
            splits = np.empty(len(rows), KEPT_SPLIT)
            splits["record"] = kept[inside] + before
            splits["split"] = assignment.of(begin, table)[rows]
            partitions.add(parts_of_hashes(uint64(table["id_hash"])[rows], parts), splits)
        return {KEPT_SPLITS: kept_splits(plan.workspace).write_rows(number, partitions)}


def _previews(plan: SpreadPlan, records: IntArray) -> list[bytes | None]:
    """Previews of some records of any ranges of units."""
    begins, preview = plan.begins, plan.context.record_type.preview
    sources = plan.sources(records)
    previews: list[bytes | None] = [None] * len(records)
    for source in np.unique(sources).tolist():
        rows = np.flatnonzero(sources == source)
        examples = UnitRange(plan, source).sidecars.examples(records[rows] - begins[source])
        for row, example in zip(rows.tolist(), examples, strict=True):
            previews[row] = preview(example)
    return previews


def _kept_records(number: int) -> str:
    return f"kept-records-{number:05d}"
