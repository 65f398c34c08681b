"""fingerprints/records.arrow: what records of a later generation are compared with.

A row per staged record, dropped ones included, a unit at a time. Nothing is written where
the index has all that is needed. The manifest does not name it, since rows are in the order of the
units; build.json has its checksum.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, bounds_of, int64, run_starts
from beam_jobs.dedup.clusters import CLUSTER_SCHEMA
from beam_jobs.job_context import JobContext
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.appending import needs_stored
from beam_jobs.staging.assignment import SPLITS_FILE
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import STORED_FIELDS, fingerprints_file
from beam_jobs.workspace import Workspace, read_batches
from foundation import storage
from shard_format import file_info, naming
from shard_format.removed_records import RemovedRecords

_BATCH_ROWS = 1 << 16
_KEPT = pa.schema([CLUSTER_SCHEMA.field("record"), CLUSTER_SCHEMA.field("kept_id")])
_RANGE_ROWS = 1 << 13  # duplicates whose kept ids are in memory, as long as there are few
_MOST_RANGES = 256  # each with an open file for a moment


def write_fingerprints(
    context: JobContext,
    sidecars: Sidecars,
    names: Sequence[str],
    removed: RemovedRecords,
) -> dict[str, Any]:
    """Writes the file, if later generations need it.

    Args:
        context: The job; its workspace has the clusters and the splits that the plan found.
        sidecars: All staged units.
        names: Names of the splits, by their numbers in the plan.
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
    with (
        _kept_ids(workspace, sidecars.records) as kept_of,
        workspace.write_arrow(place, durable=True) as sink,
        pa.ipc.new_file(sink, pa.schema(fields)) as writer,
        workspace.local_copy(workspace.plan / SPLITS_FILE) as path,
    ):
        splits: npt.NDArray[np.int8] = np.load(path, mmap_mode="r")
        for unit, table in sidecars.without_progress():
            begin = int(sidecars.begins[unit])
            split = splits[begin : begin + len(table)].astype(np.int64)
            records = np.arange(begin, begin + len(table))
            columns = {name: table[name] for name in table.column_names}
            columns["split"] = _taken(pa.array(names, pa.string()), split)
            columns["kept_id"] = kept_of(records)
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
    """From numbers of records to the id of the record that is kept in place of each.

    They are asked for in order, so duplicates wait on disk in ranges of records, one of which is in
    memory.

    Args:
        paths: Of each range, "record" and "kept_id".
        ends: [ranges] int64, the record behind each.
    """

    def __init__(self, paths: Sequence[Path], ends: IntArray) -> None:
        self._paths = paths
        self._ends = ends
        self._number = -1
        self._records = np.zeros(0, np.int64)
        self._ids = pa.array([], pa.string())

    def __call__(self, records: IntArray) -> pa.Array:
        """[n] string of ascending records; null for those in no cluster, or kept."""
        numbers = np.searchsorted(self._ends, records, side="right")
        starts = np.flatnonzero(run_starts(numbers))
        parts = zip(numbers[starts].tolist(), np.split(records, starts[1:]), strict=True)
        return pa.concat_arrays([self._in_range(number, part) for number, part in parts])

    def _in_range(self, number: int, records: IntArray) -> pa.Array:
        if number != self._number:
            self._load(number)
        if not len(self._records):
            return pa.nulls(len(records), pa.string())
        at = np.minimum(np.searchsorted(self._records, records), len(self._records) - 1)
        return _taken(self._ids, np.where(self._records[at] == records, at, -1))

    def _load(self, number: int) -> None:
        with pa.OSFile(str(self._paths[number])) as file:
            rows = pa.ipc.open_stream(file).read_all()
        order = np.argsort(int64(rows["record"]))
        self._number = number
        self._records = int64(rows["record"])[order]
        self._ids = rows["kept_id"].take(pa.array(order)).combine_chunks()


@contextlib.contextmanager
def _kept_ids(workspace: Workspace, records: int) -> Iterator[_KeptIds]:
    """Within this context, the kept ids of all duplicates among so many records."""
    number = min(_MOST_RANGES, 1 + sum(map(len, _dropped(workspace))) // _RANGE_ROWS)
    ends = records * np.arange(1, number + 1, dtype=np.int64) // number
    folder = workspace.scratch_file()
    folder.mkdir(parents=True)
    paths = [folder / str(each) for each in range(number)]
    try:
        with contextlib.ExitStack() as stack:
            sinks = [stack.enter_context(pa.OSFile(str(path), "wb")) for path in paths]
            writers = [stack.enter_context(pa.ipc.new_stream(sink, _KEPT)) for sink in sinks]
            for rows in _dropped(workspace):
                ranges = np.searchsorted(ends, int64(rows["record"]), side="right")
                rows = rows.take(pa.array(np.argsort(ranges, kind="stable")))
                bounds = bounds_of(np.bincount(ranges, minlength=number))
                for each in np.unique(ranges).tolist():
                    part = rows.slice(bounds[each], bounds[each + 1] - bounds[each])
                    writers[each].write_table(part)
        yield _KeptIds(paths, ends)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _dropped(workspace: Workspace) -> Iterator[pa.Table]:
    """The duplicates that are left out, in no order that matters."""
    for table in read_batches(workspace.clusters, [*_KEPT.names, "dropped"]):
        yield table.filter(table["dropped"]).select(_KEPT.names)
