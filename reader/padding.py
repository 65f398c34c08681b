"""How much of the batches is padding, by the lengths in the index: no record is read."""

from __future__ import annotations

import numpy as np

from reader import order
from reader.chunks import Chunks, Int64Array
from reader.options import ReadOptions

# Batches as long as their longest record are counted over this many windows: a million records of
# 4096 a window take about a second, and the rest of a larger split is like them.
MAX_WINDOWS = 256


def padding_share(lengths: Int64Array, chunks: Chunks, options: ReadOptions) -> float:
    """Share of the positions of the batches of the first epoch that hold no token, in [0, 1).

    Args:
        lengths: [num_records] tokens, none above the length of a batch.
        chunks: The split, cut up.
        options: How batches are made and padded; "max" pads to the largest of `lengths` where no
            max_tokens is given.
    """
    if options.pad == "none":
        return 0.0
    if options.pad == "max":
        longest = options.max_tokens or max(1, int(lengths.max()))
        return 1.0 - float(lengths.sum()) / (len(lengths) * longest)
    emitted = chunks.num_records
    if options.drops_remainder:
        emitted -= emitted % options.batch_size
    read = lengths[_first_records(lengths, chunks, options, emitted)]
    starts = np.arange(0, len(read), options.batch_size)
    sizes = np.minimum(options.batch_size, len(read) - starts)
    positions = int((np.maximum.reduceat(np.maximum(read, 1), starts) * sizes).sum())
    return 1.0 - float(read.sum()) / positions


def _first_records(
    lengths: Int64Array, chunks: Chunks, options: ReadOptions, emitted: int
) -> Int64Array:
    """The record numbers of the first windows of the first epoch in the order of the batches."""
    shuffle = options.shuffle != "off"
    chosen = order.chunk_order(chunks, options.seed, 0, shuffle)
    parts, position = [], 0
    for start in range(0, len(chosen), chunks.window_chunks)[:MAX_WINDOWS]:
        window = chosen[start : start + chunks.window_chunks]
        records = order.window_order(chunks, window, options.seed, 0, shuffle)
        wanted = records[: max(0, emitted - position)]
        if options.buckets > 1:
            wanted = wanted[
                order.bucket_order(
                    lengths[wanted],
                    position,
                    options.batch_size,
                    options.buckets,
                    options.seed,
                    epoch=0,
                )
            ]
        parts.append(wanted)
        position += len(records)
    return np.concatenate(parts)
