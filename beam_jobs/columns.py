"""Arrow columns as numpy arrays and back; runs of equal rows, and ranges of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ByteArray = npt.NDArray[np.uint8]

# Some columns of a table that may not fit in memory, in parts; as often as they are asked for.
Columns = Callable[[Sequence[str]], Iterable[pa.Table]]


def uint64(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """[n] uint64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.uint64)


def int64(column: pa.ChunkedArray) -> IntArray:
    """[n] int64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.int64)


def fixed_bytes(column: pa.ChunkedArray, size: int) -> ByteArray:
    """[n, size] uint8 of a fixed-size binary column without nulls."""
    if not len(column):
        return np.zeros((0, size), np.uint8)
    whole = column.combine_chunks()
    values = np.frombuffer(whole.buffers()[1], np.uint8).reshape(-1, size)
    return values[whole.offset : whole.offset + len(whole)]


def strings(offsets: IntArray, data: ByteArray) -> pa.LargeStringArray:
    """[len(offsets) - 1] large_string on a buffer that is not copied."""
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)
    )


def string_buffers(text: pa.LargeStringArray) -> tuple[IntArray, ByteArray]:
    """([n + 1] int64 offsets that begin with 0, the bytes) of a column, not copied."""
    if not len(text):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, places, values = text.buffers()
    offsets = np.frombuffer(places, np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.zeros(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def bytes_of(column: pa.LargeBinaryArray) -> memoryview:
    """The values of a column without nulls, one behind the other, not copied."""
    if not len(column):
        return memoryview(b"")
    _, places, values = column.buffers()
    offsets = np.frombuffer(places, np.int64)
    return memoryview(values or b"")[
        int(offsets[column.offset]) : int(offsets[column.offset + len(column)])
    ]


def slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Some neighbours of a table at a time, which are not copied."""
    return (table.slice(start, rows) for start in range(0, len(table), rows))


def run_starts(*columns: npt.NDArray[Any]) -> BoolArray:
    """[n] whether a row of sorted columns differs from the row before it."""
    starts = np.ones(len(columns[0]), bool)
    if len(starts):
        starts[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return starts


def first_of_run(starts: BoolArray) -> IntArray:
    """[n] where the run of each row begins, see `run_starts`."""
    return np.flatnonzero(starts)[np.cumsum(starts) - 1]


def repeated(keys: npt.NDArray[np.uint64]) -> BoolArray:
    """[n] whether a key occurs more than once; the keys are in any order."""
    ordered = np.sort(keys)
    several = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(several):
        return np.zeros(len(keys), bool)
    return several[np.minimum(np.searchsorted(several, keys), len(several) - 1)] == keys


def bounds_of(sizes: npt.NDArray[Any]) -> IntArray:
    """[n + 1] where each of n neighbours begins, the first at 0, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def ranges(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers of the ranges [start, start + size), and the range of each."""
    which = np.repeat(np.arange(len(sizes)), sizes)
    before = np.cumsum(sizes) - sizes
    return np.arange(len(which)) + (starts - before)[which], which
