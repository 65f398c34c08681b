"""fingerprints/: what appends to the set compare records and files with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.job_context import JobContext
from beam_jobs.stages.commit.duplicates import WrittenFile
from beam_jobs.stages.plan import Plan
from beam_jobs.stages.plan.stored_records import (
    left_out_records,
    stores_records,
    write_stored_records,
)
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.assignment import SPLITS_FILE, Assignment
from beam_jobs.staging.item_list import write_item_list
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from shard_format import naming
from shard_format.removed_records import RemovedRecords


def write_fingerprints(
    context: JobContext,
    summaries: Sequence[UnitSummary],
    plan: Plan,
    removed: RemovedRecords,
    items: Sequence[WrittenFile],
) -> dict[str, Any]:
    """Writes the files that workers have not written.

    Args:
        context: The job; its workspace has the clusters and the splits that the plan found.
        summaries: All units.
        plan: The plan.
        removed: The records that the set keeps out.
        items: Parts of the list of items that are written.

    Returns:
        Bytes and SHA-256 of all files by their names, for build.json.
    """
    workspace = context.workspace
    if context.options.no_fingerprints:
        return {}
    named = dict(plan.stored_files)
    if not named and stores_records(context) and any(one.kept for one in summaries):
        sidecars = Sidecars(workspace, summaries)
        with workspace.local_copy(workspace.plan / SPLITS_FILE) as path:
            assignment = Assignment(np.load(path, mmap_mode="r"), plan.num_shards)
            left_out = _left_out(workspace, plan)
            file = naming.STORED_RECORDS
            named = write_stored_records(context, file, sidecars, assignment, left_out, removed)
    written = {one.file: {"bytes": one.bytes, "sha256": one.sha256} for one in items}
    return named | write_item_list(workspace, workspace.out, summaries, written)


def _left_out(workspace: Workspace, plan: Plan) -> Iterator[pa.Table]:
    for name, sha256 in plan.cluster_files.items():
        with workspace.local_copy(workspace.plan / name) as path:
            with dropping_damaged(lambda: None):  # every build writes it again
                workspace.check_file(path, sha256)
            yield from left_out_records(path)
