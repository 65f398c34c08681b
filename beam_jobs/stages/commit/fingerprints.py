"""fingerprints/records.arrow: what records of a later generation are compared with.

A row per staged record, dropped ones included, a unit at a time. Nothing is written where
the index has all that is needed. The manifest does not name it, since rows are in the order of the
units; build.json has its checksum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.appending import needs_stored
from beam_jobs.staging.assignment import SPLITS_FILE
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import STORED_FIELDS, fingerprints_file
from beam_jobs.workspace import Workspace, read_table
from shard_format import file_info, naming, storage

_BATCH_ROWS = 1 << 16


def write_fingerprints(
    workspace: Workspace,
    sidecars: Sidecars,
    record_type: RecordType,
    options: PreprocessOptions,
    names: Sequence[str],
) -> dict[str, Any]:
    """Writes the file, if later generations need it.

    Args:
        workspace: Has the clusters and the splits that the plan found.
        sidecars: All staged units.
        record_type: Which columns near duplicates are found by.
        options: The job.
        names: Of the splits, by their numbers in the plan.

    Returns:
        Its bytes and SHA-256 by its name, for build.json; empty if there is none.
    """
    place = workspace.out / fingerprints_file("")
    storage.delete(place)
    needed = needs_stored(options, record_type)
    if needed is None or options.no_fingerprints or not sidecars.records:
        return {}
    fields = [*STORED_FIELDS, *(_field(name, record_type) for name in needed)]
    kept_of = _kept_ids(workspace)
    storage.make_folder(place.parent)
    with (
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
    """From numbers of records to the id of the record that is kept in place of each."""

    def __init__(self, members: pa.Table) -> None:
        members = members.filter(members["dropped"])
        order = np.argsort(int64(members["record"]))
        self._records = int64(members["record"])[order]
        self._ids = members["kept_id"].take(pa.array(order)).combine_chunks()

    def __call__(self, records: npt.NDArray[np.int64]) -> pa.Array:
        """[n] string; null for records that are in no cluster, or kept."""
        if not len(self._records):
            return pa.nulls(len(records), pa.string())
        at = np.minimum(np.searchsorted(self._records, records), len(self._records) - 1)
        return _taken(self._ids, np.where(self._records[at] == records, at, -1))


def _kept_ids(workspace: Workspace) -> _KeptIds:
    return _KeptIds(read_table(workspace.clusters))
