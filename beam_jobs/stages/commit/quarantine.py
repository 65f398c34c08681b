"""quarantine/part-N.parquet: every rejected record with its original bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.memory import system_memory_pool
from beam_jobs.progress import report
from beam_jobs.rejects import read_rejects
from beam_jobs.stages.list import read_units
from beam_jobs.staging import UnitSummary, forget_unit, unit_files
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import naming
from shard_format.dropped import QUARANTINE_SCHEMA
from shard_format.removed_records import RemovedRecords

PART_BYTES = 64 << 20  # 64 MiB of originals per file
GROUP_BYTES = 4 << 20  # 4 MiB per row group, which is held in memory
# Images are compressed already, and no two of them are equal.
_WRITER_OPTIONS: dict[str, Any] = {
    "use_dictionary": ["label", "stage", "reason"],
    "compression": {
        name: "none" if name == "bytes" else "snappy" for name in QUARANTINE_SCHEMA.names
    },
}


def write_quarantine(
    workspace: Workspace, summaries: Iterable[UnitSummary], removed: RemovedRecords
) -> list[str]:
    """Writes every rejected record in listing order, which does not depend on the units.

    Args:
        workspace: The build.
        summaries: Summaries of all units; those without rejects are not read.
        removed: The records that the set keeps out.

    Returns:
        The names of the files, relative to the set.
    """
    rejected = {one.key: one for one in summaries if one.refused or one.filtered}
    return write_parts(workspace, _rejects(workspace, rejected, removed))


def write_parts(workspace: Workspace, rows: Iterator[pa.RecordBatch]) -> list[str]:
    """Writes rows of the quarantine in parts.

    Args:
        workspace: Its output gets them.
        rows: One row each, in order.

    Returns:
        The names of the files, relative to the set.
    """
    folder = workspace.out / naming.QUARANTINE_DIR
    storage.delete_tree(folder)
    written: list[str] = []
    with system_memory_pool():
        first = next(rows, None)
        while first is not None:
            storage.make_folder(folder)
            name = naming.quarantine_file(len(written))
            with workspace.write_arrow(workspace.out / name, durable=True) as sink:
                first = write_part(sink, first, rows)
            written.append(name)
    return written


def write_part(
    sink: pa.NativeFile, row: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    """Writes `row`, then others until the part is full; returns the first row of the next part."""
    part_bytes = 0
    with pq.ParquetWriter(sink, QUARANTINE_SCHEMA, **_WRITER_OPTIONS) as writer:
        while row is not None and part_bytes < PART_BYTES:
            group: list[pa.RecordBatch] = []
            group_bytes = 0
            while row is not None and group_bytes < GROUP_BYTES:
                group.append(row)
                group_bytes += row.nbytes
                row = next(rows, None) if group_bytes < GROUP_BYTES else None
            writer.write_table(pa.Table.from_batches(group, QUARANTINE_SCHEMA))
            part_bytes += group_bytes
            group.clear()  # free them before the next row is read
            row = next(rows, None)
    return row


def _rejects(
    workspace: Workspace, rejected: Mapping[str, UnitSummary], removed: RemovedRecords
) -> Iterator[pa.RecordBatch]:
    for unit in read_units(workspace):
        if unit.key in rejected:
            sha256 = rejected[unit.key].sha256.get("rejects", "")
            for row in rejects_of(workspace, unit.key, sha256, removed):
                report(workspace.progress, "commit", 1)
                yield row


def rejects_of(
    workspace: Workspace, key: str, sha256: str, removed: RemovedRecords
) -> Iterator[pa.RecordBatch]:
    """The rows that a unit has in the quarantine, one by one.

    Args:
        workspace: The build.
        key: The unit.
        sha256: Checksum of its rejections.
        removed: The records that the set keeps out.

    Raises:
        InputError: The rejections are damaged, and the unit is staged again by the next build.
    """
    place = unit_files(workspace, key)["rejects"]
    with dropping_damaged(partial(forget_unit, workspace, key)):
        workspace.check_file(place, sha256)
    for row in read_rejects(place):
        if not removed.ids or not removed.has_id(row["record_id"][0].as_py()):
            yield row
