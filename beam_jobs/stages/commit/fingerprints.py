"""fingerprints/records.arrow: what records of a later generation are compared with.

A row per staged record, dropped ones included, a unit at a time. Nothing is written where
the index has all that is needed. The manifest does not name it, since rows are in the order of the
units; build.json has its checksum.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.dedup.clusters import CLUSTER_SCHEMA
from beam_jobs.job_context import JobContext
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan import Plan
from beam_jobs.stages.plan.appending import needs_stored
from beam_jobs.staging.assignment import SPLITS_FILE
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import STORED_FIELDS, fingerprints_file
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace, read_batches
from foundation import storage
from shard_format import file_info, naming
from shard_format.removed_records import RemovedRecords

_BATCH_ROWS = 1 << 16
_KEPT = pa.schema([CLUSTER_SCHEMA.field("record"), CLUSTER_SCHEMA.field("kept_id")])


def write_fingerprints(
    context: JobContext,
    sidecars: Sidecars,
    plan: Plan,
    removed: RemovedRecords,
) -> dict[str, Any]:
    """Writes the file, if later generations need it.

    Args:
        context: The job; its workspace has the clusters and the splits that the plan found.
        sidecars: All staged units.
        plan: The plan.
        removed: The records that the set keeps out.

    Returns:
        Its bytes and SHA-256 by its name, for build.json; empty if there is none.
    """
    record_type, workspace = context.record_type, context.workspace
    place = workspace.out / fingerprints_file("")
    storage.delete(place)
    needed = needs_stored(context.options, record_type)
    if needed is None or context.options.no_fingerprints or not sidecars.records:
        return {}
    fields = [*STORED_FIELDS, *(_field(name, record_type) for name in needed)]
    storage.make_folder(place.parent)
    names = pa.array(plan.num_shards, pa.string())
    with (
        _kept_ids(workspace, plan.cluster_files) as kept_ids,
        workspace.write_arrow(place, durable=True) as sink,
        pa.ipc.new_file(sink, pa.schema(fields)) as writer,
        workspace.local_copy(workspace.plan / SPLITS_FILE) as path,
    ):
        splits: npt.NDArray[np.int8] = np.load(path, mmap_mode="r")
        for begin, table in sidecars.without_progress():
            split = splits[begin : begin + len(table)].astype(np.int64)
            columns = {name: table[name] for name in table.column_names}
            columns["split"] = _taken(names, split)
            columns["kept_id"] = kept_ids.take(begin, begin + len(table))
            rows = pa.table({field.name: columns[field.name] for field in fields})
            if removed.ids:
                ids = rows["record_id"].to_pylist()
                rows = rows.filter(pa.array([not removed.has_id(name) for name in ids], pa.bool_()))
            for batch in rows.cast(pa.schema(fields)).to_batches(_BATCH_ROWS):
                writer.write_batch(batch)
    return {naming.STORED_RECORDS: file_info(place)}


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
        rows: Tables with "record" and "kept_id" of all duplicates, in order.
    """

    def __init__(self, rows: Iterator[pa.Table]) -> None:
        self._rows = rows
        self._next = _KEPT.empty_table()

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
def _kept_ids(workspace: Workspace, files: Mapping[str, str]) -> Iterator[_KeptIds]:
    """Within this context, the kept ids of all duplicates, which wait on disk if they are many."""
    sorter = RowSorter(workspace.scratch_file(), _KEPT, ["record"])
    with contextlib.closing(sorter):
        for rows in _dropped(workspace, files):
            sorter.append(rows)
        yield _KeptIds(sorter.in_order())


def _dropped(workspace: Workspace, files: Mapping[str, str]) -> Iterator[pa.Table]:
    """The duplicates that are left out, in no order that matters."""
    for name, sha256 in files.items():
        with workspace.local_copy(workspace.plan / name) as path:
            with dropping_damaged(lambda: None):  # every build writes it again
                workspace.check_file(path, sha256)
            for table in read_batches(path, [*_KEPT.names, "dropped"]):
                yield table.filter(table["dropped"]).select(_KEPT.names)
