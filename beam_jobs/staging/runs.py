"""Merged runs: records of many units in the order of the shards.

KEY.run    cells, one behind the other; a cell has what one reader needs of the run
KEY.json   the sizes of its cells; written last, so that it marks the run as done

A cell is a frame with an Arrow stream of the rows of its records, then their frames. "destination"
is the number of the shard over all splits, and "offset" counts from the first frame of a record. A
reader needs one stretch of one object: in one request if it fits in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import int64
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.staging.units import with_offsets
from beam_jobs.workspace import Workspace, read_marker, write_marker
from foundation import storage
from foundation.storage import Place
from shard_format import frame, unframe

# The order of all records of a set. The record id breaks the tie of two equal keys.
_ORDER = [("destination", "ascending"), ("key", "ascending"), ("record_id", "ascending")]


Size = tuple[int, int, int]  # of a cell: records, bytes of its rows, bytes of its frames


class Cell(NamedTuple):
    """A part of a run.

    Attributes:
        run: Key of the run.
        offset: In its file.
        records: Number of them.
        row_bytes: Size of the frame with the rows, with which it begins.
        payload_bytes: Size of the frames.
    """

    run: str
    offset: int
    records: int
    row_bytes: int
    payload_bytes: int


def run_files(workspace: Workspace, key: str) -> tuple[Place, Place]:
    """The cells of a run, and the file that marks it as done."""
    return workspace.runs / f"{key}.run", workspace.runs / f"{key}.json"


def finished_run(workspace: Workspace, key: str) -> list[Size] | None:
    """The sizes of the cells of a run that was written before; None if it was not."""
    file, marker = run_files(workspace, key)
    sizes = read_marker(marker)
    if not isinstance(sizes, list):
        return None
    written = storage.stat(file)
    if written is None or written.size != sum(rows + payload for _, rows, payload in sizes):
        return None
    return [(records, rows, payload) for records, rows, payload in sizes]


def write_run(
    workspace: Workspace,
    key: str,
    table: pa.Table,
    sources: Sequence[Source],
    ends: Sequence[int],
    block_bytes: int,
    on_written: Callable[[int], None],
) -> list[Size]:
    """Writes a run; the sizes of its cells.

    Args:
        workspace: The build.
        key: Key of the run.
        table: The rows of its records in order.
        sources: Where the frames are now; "unit" of a row is an index into them.
        ends: End of every cell, one behind its last destination; ascending.
        block_bytes: Payload in memory at a time.
        on_written: Called with the number of records after each cell.

    Raises:
        InputError: A source is damaged.
    """
    file, marker = run_files(workspace, key)
    edges = np.searchsorted(int64(table["destination"]), np.array([0, *ends]), side="left")
    frames = (framed for _, block in read_frames(table, sources, block_bytes) for framed in block)
    sizes: list[Size] = []
    with workspace.write(file) as sink:
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            rows = _stream(table.slice(start, end - start)) if end > start else b""
            sink.write(rows)
            payload_bytes = 0
            for _ in range(end - start):
                framed = next(frames)
                sink.write(framed)
                payload_bytes += len(framed)
            sizes.append((end - start, len(rows), payload_bytes))
            on_written(end - start)
    write_marker(workspace, marker, sizes)
    return sizes


def read_cells(
    cells: Sequence[Cell], workspace: Workspace, block_bytes: int
) -> tuple[pa.Table, list[Source]]:
    """The rows of some cells in the order of the set, and where their frames are.

    Args:
        cells: At least one.
        workspace: The build.
        block_bytes: Payload in memory at a time: cells that have no more are read as a whole.
    """
    whole = sum(cell.payload_bytes for cell in cells) <= block_bytes
    tables: list[pa.Table] = []
    sources: list[Source] = []
    remote = storage.local_path(workspace.runs) is None
    read = partial(_read_cell, workspace=workspace, whole=whole)
    for number, (rows, source) in enumerate(storage.in_parallel(read, cells, remote=remote)):
        tables.append(rows.append_column("unit", pa.array(np.full(len(rows), number, np.int32))))
        sources.append(source)
    return in_order(pa.concat_tables(tables)), sources


def in_order(table: pa.Table) -> pa.Table:
    """Rows by destination, key and record id."""
    order = pc.sort_indices(table, sort_keys=_ORDER)
    return table.take(order).combine_chunks()


def _read_cell(cell: Cell, workspace: Workspace, *, whole: bool) -> tuple[pa.Table, Source]:
    file, marker = run_files(workspace, cell.run)
    size = cell.row_bytes + cell.payload_bytes * whole
    data = memoryview(storage.read_range(file, cell.offset, size))
    source = Source(
        file,
        cell.offset + cell.row_bytes,
        partial(storage.delete, marker),
        data[cell.row_bytes :] if whole else None,
    )
    with source.reporting_damage():
        rows = unframe(bytes(data[: cell.row_bytes]), str(file))
    return pa.ipc.open_stream(rows).read_all(), source


def _stream(table: pa.Table) -> bytes:
    table = with_offsets(table).drop_columns(["unit"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return frame(sink.getvalue().to_pybytes())
