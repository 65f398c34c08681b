"""An order of rows that depends on what they hold, not on where they stand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from shard_format import mix

_BLOCK_ROWS = 1 << 14


def content_numbers(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """[n] 64-bit hashes of rows [n, bytes]; rows that differ share one with chance 2**-64."""
    numbers = np.zeros(len(rows), np.uint64)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        words = np.zeros((len(block), -(-block.shape[1] // 8)), "<u8")
        words.view(np.uint8)[:, : block.shape[1]] = block
        for word in words.T:
            numbers[start : start + len(block)] = mix(numbers[start : start + len(block)] ^ word)
    return numbers


def run_starts(*columns: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """[n] whether a row of sorted columns differs from the one before it."""
    starts = np.ones(len(columns[0]), np.bool_)
    if len(starts):
        starts[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return starts


def first_of_run(starts: npt.NDArray[np.bool_]) -> IntArray:
    """[n] for every row, where its run begins."""
    return np.flatnonzero(starts)[np.cumsum(starts) - 1]
