"""Every refused record with its bytes, as Parquet."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.progress import report
from beam_jobs.rejects import REJECT_SCHEMA
from beam_jobs.stages.list import read_units
from beam_jobs.staging import unit_files
from beam_jobs.workspace import Workspace, publish
from shard_format import naming

_QUARANTINE_PART_BYTES = 64 << 20  # 64 MiB of refused originals a file
_QUARANTINE_GROUP_BYTES = 4 << 20  # 4 MiB a row group: what is held in memory
# What the set keeps of a reject: where it stood in its unit is of no use to anybody.
QUARANTINE_SCHEMA = REJECT_SCHEMA.remove(REJECT_SCHEMA.get_field_index("position"))
# Pictures are compressed already, and no two of them are equal.
_QUARANTINE_WRITING: dict[str, Any] = {
    "use_dictionary": ["label", "stage", "reason"],
    "compression": {
        name: "none" if name == "bytes" else "snappy" for name in QUARANTINE_SCHEMA.names
    },
}


def write_quarantine(workspace: Workspace) -> list[str]:
    """Every refused record with its bytes, in listing order, whatever the units were."""
    folder = workspace.out / naming.QUARANTINE_DIR
    shutil.rmtree(folder, ignore_errors=True)
    written: list[str] = []
    with _memory_given_back():
        rows = _rejects(workspace)
        waiting = next(rows, None)
        while waiting is not None:
            folder.mkdir(exist_ok=True)
            name = naming.quarantine_file(len(written))
            temporary = workspace.temporary(folder)
            waiting = _write_quarantine_part(temporary, waiting, rows)
            publish(temporary, workspace.out / name, durable=True)
            written.append(name)
    return written


def _write_quarantine_part(
    path: Path, row: pa.RecordBatch | None, rows: Iterator[pa.RecordBatch]
) -> pa.RecordBatch | None:
    """Writes rows, the one given first, until the part is full; the first row of the next."""
    part_bytes = 0
    with pq.ParquetWriter(path, QUARANTINE_SCHEMA, **_QUARANTINE_WRITING) as writer:
        while row is not None and part_bytes < _QUARANTINE_PART_BYTES:
            group: list[pa.RecordBatch] = []
            group_bytes = 0
            while row is not None and group_bytes < _QUARANTINE_GROUP_BYTES:
                group.append(row)
                group_bytes += row.nbytes
                row = next(rows, None) if group_bytes < _QUARANTINE_GROUP_BYTES else None
            writer.write_table(pa.Table.from_batches(group, QUARANTINE_SCHEMA))
            part_bytes += group_bytes
            group.clear()  # let go of them before the next one is read
            row = next(rows, None)
    return row


@contextlib.contextmanager
def _memory_given_back() -> Iterator[None]:
    """Has Arrow allocate with malloc, which returns large blocks to the system at once.

    Its own allocator does when it finds time to: the peak was 600 MiB in one run and 790 in the
    next. The writer of Parquet takes no allocator of its own, so it is set for all.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def _rejects(workspace: Workspace) -> Iterator[pa.RecordBatch]:
    """Refused records one at a time."""
    for unit in read_units(workspace):
        path = str(unit_files(workspace, unit.key)["rejects"])
        # One row a batch, in the order of staging; "position" gives the order of the listing.
        # That column is looked up in a memory map, originals are read one at a time: mapped, they
        # would all stay resident.
        mapped = pa.ipc.open_file(pa.memory_map(path))
        numbers = range(mapped.num_record_batches)
        positions = [mapped.get_batch(number)["position"][0].as_py() for number in numbers]
        with pa.OSFile(path) as source:
            file = pa.ipc.open_file(source)
            for number in sorted(numbers, key=positions.__getitem__):
                report(workspace.progress, "commit", 1)
                yield file.get_batch(number).select(QUARANTINE_SCHEMA.names)
