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
from beam_jobs.staging import UnitSummary, forget_unit, unit_files
from beam_jobs.staging.units import dropping_damaged, read_units
from beam_jobs.workspace import Workspace
from foundation import storage
from shard_format import naming
from shard_format.dropped import QUARANTINE_SCHEMA
from shard_format.removed_records import RemovedRecords

_PART_BYTES = 64 << 20  # 64 MiB of originals per file
_GROUP_BYTES = 4 << 20  # 4 MiB per row group, which is held in memory
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


class QuarantineCuts:
    """Where a row group ends, and where a part does: behind so many bytes, whatever comes next."""

    def __init__(self) -> None:
        self._part_bytes = self._group_bytes = 0

    def ends(self, row_bytes: int) -> tuple[bool, bool]:
        """Whether the next row is the last of its row group, and of its part."""
        self._group_bytes += row_bytes
        if self._group_bytes < _GROUP_BYTES:
            return False, False
        self._part_bytes, self._group_bytes = self._part_bytes + self._group_bytes, 0
        if self._part_bytes < _PART_BYTES:
            return True, False
        self._part_bytes = 0
        return True, True


def write_part(
    sink: pa.NativeFile, row: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    """Writes `row`, then others until the part is full; returns the first row of the next part."""
    cuts, group, is_full = QuarantineCuts(), list[pa.RecordBatch](), False
    with pq.ParquetWriter(sink, QUARANTINE_SCHEMA, **_WRITER_OPTIONS) as writer:
        while row is not None and not is_full:
            group.append(row)
            ends, is_full = cuts.ends(row.nbytes)
            row = None  # freed with its group, before the next one is read
            if ends:
                _write_group(writer, group)
            row = next(rows, None)
        if group:
            _write_group(writer, group)
    return row


def _write_group(writer: pq.ParquetWriter, group: list[pa.RecordBatch]) -> None:
    """Writes rows and frees them, before the next row is read."""
    writer.write_table(pa.Table.from_batches(group, QUARANTINE_SCHEMA))
    group.clear()


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
