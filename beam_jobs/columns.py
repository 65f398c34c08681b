"""Arrow columns as numpy arrays, and runs of equal rows in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]


def uint64(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """[n] uint64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.uint64)


def int64(column: pa.ChunkedArray) -> IntArray:
    """[n] int64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.int64)


def fixed_bytes(column: pa.ChunkedArray, size: int) -> npt.NDArray[np.uint8]:
    """[n, size] uint8 of a fixed-size binary column without nulls."""
    if not len(column):
        return np.zeros((0, size), np.uint8)
    whole = column.combine_chunks()
    values = np.frombuffer(whole.buffers()[1], np.uint8).reshape(-1, size)
    return values[whole.offset : whole.offset + len(whole)]


def run_starts(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """[n] whether a row of sorted columns differs from the row before it."""
    starts = np.ones(len(columns[0]), np.bool_)
    if len(starts):
        starts[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return starts
