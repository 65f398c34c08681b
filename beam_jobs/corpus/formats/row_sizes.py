"""How many bytes the rows of a column take once they are decoded.

A column may hold a value once and name it in every row: as a dictionary, a run, or a view. So a
file of a kilobyte may have rows of gigabytes, and what is decoded at a time is bounded by these
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, bounds_of

_LIST_BYTES = 8  # of an empty list, about
_VIEW_WORDS = 4  # a view has 16 bytes, and begins with the length of its value


def bounded(batch: pa.RecordBatch, limit: int) -> Iterator[tuple[pa.RecordBatch, IntArray]]:
    """A batch in slices of about `limit` decoded bytes, each with the sizes of its rows.

    A slice has at least one row.
    """
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += row_bytes(column)
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = ends[start] - sizes[start]
        end = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield batch.slice(start, end - start), sizes[start:end]
        start = end


def row_bytes(column: pa.Array) -> IntArray:
    """[n] int64: the decoded bytes of each row of a valid array, about."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _taken(row_bytes(column.dictionary), column.indices)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(column.offset, column.offset + len(column))
        runs = np.searchsorted(column.run_ends.to_numpy(), rows, side="right")
        return row_bytes(column.values)[runs]
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(column.buffers()[1] or b"", np.int32)[::_VIEW_WORDS]
        return views[column.offset : column.offset + len(column)].astype(np.int64)
    if pa.types.is_struct(kind):
        sizes = np.zeros(len(column), np.int64)
        for child in column.flatten():
            sizes += row_bytes(child)
        return sizes
    if _has_ranges(kind):
        return _of_lists(column)
    if isinstance(kind, pa.ExtensionType):
        return row_bytes(column.storage)
    try:
        lengths = pc.binary_length(column)
    except pa.ArrowNotImplementedError:
        return np.full(len(column), 1 + column.nbytes // max(1, len(column)), np.int64)
    return np.asarray(pc.fill_null(lengths, 0), np.int64)


def _has_ranges(kind: pa.DataType) -> bool:
    return any(
        is_list(kind)
        for is_list in (
            pa.types.is_list,
            pa.types.is_large_list,
            pa.types.is_fixed_size_list,
            pa.types.is_list_view,
            pa.types.is_large_list_view,
            pa.types.is_map,
        )
    )


def _of_lists(column: pa.Array) -> IntArray:
    kind, rows = column.type, len(column)
    if pa.types.is_fixed_size_list(kind):
        starts = (column.offset + np.arange(rows)) * kind.list_size
        sizes: IntArray = np.full(rows, kind.list_size, np.int64)
    elif pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        starts = np.asarray(column.offsets, np.int64)[:rows]
        sizes = np.asarray(column.sizes, np.int64)[:rows]
    else:
        offsets = np.asarray(column.offsets, np.int64)
        starts, sizes = offsets[:-1], np.diff(offsets)
    values = (
        pa.StructArray.from_arrays([column.keys, column.items], ["", " "])
        if (pa.types.is_map(kind))
        else column.values
    )
    bounds = bounds_of(row_bytes(values) + _LIST_BYTES)
    return bounds[starts + sizes] - bounds[starts] + _LIST_BYTES


def _taken(sizes: IntArray, indices: pa.Array) -> IntArray:
    if not len(sizes):
        return np.zeros(len(indices), np.int64)
    return sizes[np.asarray(pc.fill_null(indices, 0), np.int64)]
