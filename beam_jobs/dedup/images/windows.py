"""Cuts windows out of small square pictures: the matrices that stretch a window to the full square.

Everything is whole numbers, so that a similarity near the threshold falls on the same side of it on
every CPU (decision 0005).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.images.hash_format import EDGE_UNITS, LUMA_SIDE

Float32Array = npt.NDArray[np.float32]

# As much as is ever cut off one edge, in EDGE_UNITS: 12.5 % of the side.
MAX_CUT = 20
# Every row of a matrix sums to this.
WEIGHT_SUM = 64


def window_matrices(cuts: IntArray, out: Float32Array) -> Float32Array:
    """Fills `out` [..., LUMA_SIDE, LUMA_SIDE] with matrices that stretch what is left of a side.

    Args:
        cuts: [..., 2] what is cut off at the start and at the end, in EDGE_UNITS, in [0, MAX_CUT].
        out: Written to, for fresh memory would cost more than the arithmetic.
    """
    numbers = cuts[..., 0] * (MAX_CUT + 1) + cuts[..., 1]
    # Without a mode, `take` makes a copy of `out` to be safe from bad numbers.
    return np.take(_MATRICES, numbers, axis=0, out=out, mode="clip")


def _matrix(first: int, last: int) -> IntArray:
    """[target, source] weights: the part of every target pixel that lies in each source pixel.

    Positions are in 1 / (EDGE_UNITS LUMA_SIDE) of the side, where all edges are whole numbers.
    """
    width = EDGE_UNITS - first - last  # of a target pixel
    starts = first * LUMA_SIDE + width * np.arange(LUMA_SIDE)[:, np.newaxis]
    pixels = EDGE_UNITS * np.arange(LUMA_SIDE)
    overlap = np.minimum(starts + width, pixels + EDGE_UNITS) - np.maximum(starts, pixels)
    weights = (2 * WEIGHT_SUM * overlap.clip(0) + width) // (2 * width)
    # What rounding took or gave goes to the largest weight, where it matters least.
    weights[np.arange(LUMA_SIDE), weights.argmax(axis=1)] += WEIGHT_SUM - weights.sum(axis=1)
    return np.asarray(weights, np.int64)


# [(MAX_CUT + 1)**2, LUMA_SIDE, LUMA_SIDE]: 2 MiB
_MATRICES = np.array(
    [_matrix(first, last) for first in range(MAX_CUT + 1) for last in range(MAX_CUT + 1)],
    np.float32,
)
