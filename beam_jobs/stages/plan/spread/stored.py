"""The stored records of a set in parts, one for each range of units.

The worker of a range of fingerprints knows which record is kept in place of a duplicate, and sends
its id to the range of units that has the duplicate.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.duplicates import RANGE, received_tables, send_tables
from beam_jobs.stages.plan.spread.unit_range import UnitRange
from beam_jobs.stages.plan.stored_records import (
    LEFT_OUT_RECORDS,
    left_out_records,
    stores_records,
    write_stored_records,
)
from beam_jobs.staging.assignment import Assignment
from shard_format import naming
from shard_format.fingerprint_files import part_file
from shard_format.removed_records import RemovedRecords

_KEPT_IDS = "kept-ids"  # exchange


def send_kept_ids(plan: SpreadPlan, number: int, clusters: Path) -> dict[str, bytes]:
    """Sends which record is kept for each duplicate that is left out; returns the sizes."""
    if not stores_records(plan.context):
        return {}
    begins = plan.begins
    order = (RANGE.name, "record")
    with closing(plan.sorter(LEFT_OUT_RECORDS.append(RANGE), order)) as by_range:
        for rows in left_out_records(clusters):
            records = int64(rows["record"])
            sources = plan.sources(records)
            numbered = rows.set_column(
                LEFT_OUT_RECORDS.get_field_index("record"),
                LEFT_OUT_RECORDS.field("record"),
                pa.array(records - begins[sources]),
            )
            by_range.append(numbered.append_column(RANGE, pa.array(sources)))
        return send_tables(plan, _KEPT_IDS, number, by_range.in_order())


def write_part(
    plan: SpreadPlan, number: int, units: UnitRange, assignment: Assignment
) -> dict[str, Any]:
    """Writes the stored records of a range of units; bytes and SHA-256 by name of the file."""
    if not stores_records(plan.context):
        return {}
    any_sent = plan.decisions.duplicates_parts
    left_out = received_tables(plan, _KEPT_IDS, number) if any_sent else ()
    return write_stored_records(
        plan.context,
        part_file(naming.STORED_RECORDS, number, plan.ranges),
        units.sidecars,
        assignment,
        left_out,
        RemovedRecords(),  # then one worker plans
    )
