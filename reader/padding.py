"""How much of the batches is padding, by the lengths in the index: no record is read."""

from __future__ import annotations

import numpy as np

from reader.buckets import bucket_order
from reader.geometry import Geometry
from reader.options import ReadOptions
from reader.order import Int64Array, window_order
from reader.shares import emitted_records
from reader.token_counts import Lookup, TokenCounts

# Batches as long as their longest record are counted over this many windows: a million records of
# 4096 a window take about a second, and the rest of a larger split is like them.
MAX_WINDOWS = 256


def padding_share(lengths: TokenCounts, geometry: Geometry, options: ReadOptions) -> float:
    """Share of the positions of the batches of the first epoch that hold no token, in [0, 1).

    Args:
        lengths: Of every record, none above the length of a batch.
        geometry: The split.
        options: How batches are made and padded; "max" pads to the longest record where no
            max_tokens is given.
    """
    if options.pad == "none":
        return 0.0
    if options.pad == "max":
        longest = options.max_tokens or max(1, lengths.longest)
        return 1.0 - lengths.total / (len(lengths) * longest)
    emitted = emitted_records(geometry.records, options.batch_size, str(options.remainder))
    read = lengths[_first_records(lengths, geometry, options)[:emitted]]
    starts = np.arange(0, len(read), options.batch_size)
    sizes = np.minimum(options.batch_size, len(read) - starts)
    positions = int((np.maximum.reduceat(np.maximum(read, 1), starts) * sizes).sum())
    return 1.0 - float(read.sum()) / positions


def _first_records(lengths: Lookup, geometry: Geometry, options: ReadOptions) -> Int64Array:
    """The record numbers of the first windows of the first epoch in the order of the batches."""
    parts, seed, share = [], options.seed, (0, 1)
    for window in range(min(MAX_WINDOWS, geometry.num_windows)):
        if options.buckets > 1:
            numbers, wanted = bucket_order(
                geometry, lengths, window, share, options.batch_size, options.buckets, seed, 0
            )
        else:
            numbers, wanted = window_order(geometry, window, share, seed, 0, options.shuffle)
        parts.append(numbers[wanted])
    return np.concatenate(parts)
