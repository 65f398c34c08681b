"""Records drawn by weight: how often a record comes is said by a column of the index.

Systematic sampling (Madow and Madow 1944, On the Theory of Systematic Sampling): the cumulative
weights are divided into as many equal steps as an epoch has draws, and each step draws the record
that it falls on. So within an epoch a record comes as often as its share of the draws says, rounded
up or down. The steps begin at another place in every epoch, and are permuted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reader.order.numpy_order import Int64Array, epoch_key, permute
from shard_format import UsageError

STEP_STREAM = 0x53544550  # "STEP"
OFFSET_STREAM = 0x4F4646534554  # "OFFSET"


class Sampler(Protocol):
    """Which record is drawn at a position."""

    def numbers(self, positions: Int64Array, epoch: int, /) -> Int64Array:
        """[n] int64: the record drawn at each position [n] int64 of an epoch."""


class WeightSampler:
    """Draws records by weight. It holds 8 bytes a record.

    Args:
        weights: [records] float64 of at least 0, of which one is above.
        seed: In [0, 2**63).
    """

    def __init__(self, weights: npt.NDArray[np.float64], seed: int) -> None:
        self._ends, self._seed = np.cumsum(weights), seed
        self._last = int(np.flatnonzero(weights)[-1])

    def numbers(self, positions: Int64Array, epoch: int, /) -> Int64Array:
        """[n] int64: the record drawn at each position [n] int64 of an epoch."""
        records = len(self._ends)
        steps = permute(positions, records, epoch_key(STEP_STREAM, self._seed, epoch))
        begin = float(epoch_key(OFFSET_STREAM, self._seed, epoch)[0] >> np.uint64(11)) * 2.0**-53
        places = (steps + begin) * (self._ends[-1] / records)
        # Of equal ends, the first has the weight; a place may be rounded up to the last one.
        return np.minimum(np.searchsorted(self._ends, places, side="right"), self._last)


def make_weight_sampler(
    name: str, column: pa.ChunkedArray, seed: int, where: Path
) -> WeightSampler:
    """The sampler of a split by a column of its index.

    Raises:
        UsageError: The column has no numbers, or one is missing, negative or not finite, or all
            are 0.
    """
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise UsageError(
            f"sample={name!r} is a column of {column.type}, not of numbers, in {where}. Name one "
            "with weights."
        )
    weights = np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)  # NaN for null
    if not (weights >= 0).all() or not np.isfinite(weights).all():
        number = int(np.argmin((weights >= 0) & np.isfinite(weights)))
        raise UsageError(
            f"sample={name!r} is {weights[number]} for record number {number} of {where}. Weights "
            "are finite numbers of at least 0; select records with where, or name another column."
        )
    if not weights.any():
        raise UsageError(
            f"sample={name!r} is 0 for all {len(weights)} records of {where}. Name a column with "
            "weights above 0."
        )
    return WeightSampler(weights, seed)
