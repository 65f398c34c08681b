"""Mean, deviation and range of the channels over a split, from the sums in its index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.images.pixel_statistics import PIXEL_FIELDS

# Squares of one picture sum to at most 2**40, so these fit an int64; Python adds the chunks.
_CHUNK_ROWS = 1 << 18
_CHANNELS = 3


def merge_pixels(index: pa.Table) -> dict[str, Any]:
    """{"count", "mean", "std", "min", "max"} over the pixels that were counted.

    Everything is whole numbers until the last division and root, so the order of the records and
    the number of shards have no effect on the result, not even on its last bit.

    Args:
        index: Has the columns of `PIXEL_FIELDS`, in rows of any order; counts of 0 are left out.

    Returns:
        "count" is a number of pixels; the others are lists of red, green and blue in [0, 255]. The
        deviation is that of the population. Empty where nothing was counted.
    """
    table = index.select([field.name for field in PIXEL_FIELDS])
    count, sums, squares = 0, [0] * _CHANNELS, [0] * _CHANNELS
    least, most = [255] * _CHANNELS, [0] * _CHANNELS
    for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
        batch = batch.filter(pc.greater(batch["pixel_count"], 0))
        if not batch.num_rows:
            continue
        count += int(batch["pixel_count"].to_numpy().sum())
        sums = _added(sums, batch["pixel_sum"])
        squares = _added(squares, batch["pixel_sum_squares"])
        least = np.minimum(least, _channels(batch["pixel_min"]).min(axis=0)).tolist()
        most = np.maximum(most, _channels(batch["pixel_max"]).max(axis=0)).tolist()
    if not count:
        return {}
    variances = [
        (count * square - total * total) / (count * count)
        for total, square in zip(sums, squares, strict=True)
    ]
    return {
        "count": count,
        "mean": [total / count for total in sums],
        "std": [math.sqrt(variance) for variance in variances],
        "min": least,
        "max": most,
    }


def _added(totals: list[int], column: pa.Array) -> list[int]:
    own = _channels(column).sum(axis=0, dtype=np.int64).tolist()
    return [total + more for total, more in zip(totals, own, strict=True)]


def _channels(column: pa.Array) -> Any:
    """[rows, 3]: the values of a column of fixed-size lists without nulls."""
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, _CHANNELS)
