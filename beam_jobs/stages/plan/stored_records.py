"""fingerprints/records.arrow, or a part of it: what later records are compared with.

A row per staged record, dropped ones included, a unit at a time. Nothing is written where the index
has all that is needed. The manifest does not name it, since rows are in the order of the units;
build.json has its checksum.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.dedup.clusters import CLUSTER_SCHEMA
from beam_jobs.job_context import JobContext
from beam_jobs.record_types import RecordType
from beam_jobs.selection import where_of
from beam_jobs.stages.plan.appending import needs_stored
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import STORED_FIELDS
from beam_jobs.workspace import Workspace, read_batches
from foundation import storage
from shard_format import file_info
from shard_format.removed_records import RemovedRecords

_BATCH_ROWS = 1 << 16
# The duplicates that are left out, with the id of the record that is kept in place of each.
LEFT_OUT_RECORDS = pa.schema([CLUSTER_SCHEMA.field("record"), CLUSTER_SCHEMA.field("kept_id")])


def stores_records(context: JobContext) -> bool:
    """Whether later generations need more of the records than the index has."""
    options = context.options
    return not options.no_fingerprints and needs_stored(options, context.record_type) is not None


def left_out_records(clusters: Path) -> Iterator[pa.Table]:
    """Rows of LEFT_OUT_RECORDS from a local file of clusters."""
    for table in read_batches(clusters, [*LEFT_OUT_RECORDS.names, "dropped"]):
        yield table.filter(table["dropped"]).select(LEFT_OUT_RECORDS.names)


def write_stored_records(
    context: JobContext,
    file: str,
    sidecars: Sidecars,
    assignment: Assignment,
    left_out: Iterable[pa.Table],
    removed: RemovedRecords,
) -> dict[str, Any]:
    """Writes the stored records of some units.

    Args:
        context: The job.
        file: Name of the file, relative to the set.
        sidecars: The units.
        assignment: The splits of their records.
        left_out: Rows of LEFT_OUT_RECORDS, of the records of these units, in any order.
        removed: The records that the set keeps out.

    Returns:
        Bytes and SHA-256 by the name of the file, for build.json.
    """
    workspace, place = context.workspace, context.workspace.out / file
    needed = needs_stored(context.options, context.record_type) or []
    schema = pa.schema([*STORED_FIELDS, *(_field(name, context.record_type) for name in needed)])
    storage.make_folder(place.parent)
    names = pa.array(assignment.names, pa.string())
    selects = where_of(context.options, context.record_type)
    with (
        _kept_ids(workspace, left_out) as kept_ids,
        workspace.write_arrow(place, durable=True) as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for begin, table in sidecars.without_progress():
            split = assignment.of(begin, table).astype(np.int64)
            columns = {name: table[name] for name in table.column_names}
            columns["split"] = _taken(names, split)
            columns["kept_id"] = kept_ids.take(begin, begin + len(table))
            rows = pa.table({field.name: columns[field.name] for field in schema})
            if selects is not None:  # others are in no cluster
                rows = rows.filter(pa.array(selects(table)))
            if removed.ids:
                ids = rows["record_id"].to_pylist()
                rows = rows.filter(pa.array([not removed.has_id(name) for name in ids], pa.bool_()))
            for batch in rows.cast(schema).to_batches(_BATCH_ROWS):
                writer.write_batch(batch)
    return {file: file_info(place)}


def _field(name: str, record_type: RecordType) -> pa.Field:
    if name == "group":
        return pa.field("group", pa.uint64())
    return next(field for field in record_type.stored_features if field.name == name)


def _taken(values: pa.Array, at: npt.NDArray[np.int64]) -> pa.Array:
    """Values at positions; null at negative ones."""
    return values.take(pa.array(at, mask=at < 0))


class _KeptIds:
    """Gives the id of the record that is kept in place of each duplicate, in the order of records.

    Args:
        rows: Tables of LEFT_OUT_RECORDS, in order.
    """

    def __init__(self, rows: Iterator[pa.Table]) -> None:
        self._rows = rows
        self._next = LEFT_OUT_RECORDS.empty_table()

    def take(self, begin: int, end: int) -> pa.Array:
        """[end - begin] string of the next records; null for those in no cluster, or kept."""
        parts = []
        while True:
            inside = int(np.searchsorted(int64(self._next["record"]), end))
            parts.append(self._next.slice(0, inside))
            self._next = self._next.slice(inside)
            following = None if len(self._next) else next(self._rows, None)
            if following is None:
                break
            self._next = following
        table = pa.concat_tables(parts)
        at = np.full(end - begin, -1, np.int64)
        at[int64(table["record"]) - begin] = np.arange(len(table))
        return _taken(table["kept_id"].combine_chunks(), at)


@contextlib.contextmanager
def _kept_ids(workspace: Workspace, left_out: Iterable[pa.Table]) -> Iterator[_KeptIds]:
    """Within this context, the kept ids of all duplicates, which wait on disk if they are many."""
    rows = RowSorter(workspace.scratch_file(), LEFT_OUT_RECORDS, ["record"])
    with contextlib.closing(rows):
        for table in left_out:
            rows.append(table)
        yield _KeptIds(rows.in_order())
