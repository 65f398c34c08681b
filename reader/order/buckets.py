"""Batches of records of similar length, by the order of a window: nothing is held back for them.

In every block records are ranked by length and divided by rank into groups of nearly equal size.
Blocks are woven in the order of their groups, so any run of a window is of about one rank, and a
batch is such a run. Then whole batches change places, or lengths would rise and fall with the
windows. That no record leaves its stream is why it holds for any number of workers.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from reader.order.geometry import Geometry
from reader.order.numpy_order import (
    BATCH_STREAM,
    BLOCK_BITS,
    GROUP_BITS,
    RECORD_STREAM,
    Int64Array,
    block_numbers,
    epoch_key,
    weave,
)
from shard_format import mix


class Lookup(Protocol):
    """[records] whole numbers; an array, or something that looks them up."""

    def __getitem__(self, numbers: Int64Array, /) -> Int64Array:
        """[n] of [n] record numbers."""


def bucket_order(
    geometry: Geometry,
    lengths: Lookup,
    window: int,
    share: tuple[int, int],
    batch_size: int,
    buckets: int,
    seed: int,
    epoch: int,
) -> tuple[Int64Array, Int64Array]:
    """Like `numpy_order.window_order` of shuffle="window", in batches of similar length.

    Args:
        geometry: The split.
        lengths: [records] of the split, in [0, 2**GROUP_BITS).
        window: Which window of the epoch.
        share: (r, n), see `window_order`.
        batch_size: Records of a batch of all workers, a multiple of n.
        buckets: Number of groups, below 2**15.
        seed: In [0, 2**63).
        epoch: In [0, 2**63).
    """
    numbers, blocks = block_numbers(geometry, window, share, seed, epoch)
    sizes = np.bincount(blocks)
    by_length = np.argsort((blocks << GROUP_BITS) + lengths[numbers], kind="stable")
    ranks = np.empty_like(numbers)
    ranks[by_length] = np.arange(len(numbers)) - (np.cumsum(sizes) - sizes)[blocks]
    groups = ranks * buckets // sizes[blocks]
    if window % 2:  # what two windows share is of the longest, or of the shortest, of both
        groups = buckets - 1 - groups
    hashes = mix(epoch_key(RECORD_STREAM, seed, epoch) ^ numbers.astype(np.uint64))
    keys = (blocks << BLOCK_BITS) + (groups << GROUP_BITS)
    keys += (hashes >> np.uint64(64 - GROUP_BITS)).astype(np.int64)
    woven = weave(np.argsort(keys, kind="stable"), blocks)

    head, num_batches = whole_batches(geometry, window, batch_size)
    begin, own = min(head // share[1], len(woven)), batch_size // share[1]
    end = begin + num_batches * own
    positions = np.arange(num_batches, dtype=np.uint64) * np.uint64(batch_size)
    positions += np.uint64(window * geometry.window_records + head)
    places = np.argsort(mix(epoch_key(BATCH_STREAM, seed, epoch) ^ positions))
    whole = woven[begin:end].reshape(num_batches, own)[places]
    return numbers, np.concatenate([woven[:begin], whole.ravel(), woven[end:]])


def whole_batches(geometry: Geometry, window: int, batch_size: int) -> tuple[int, int]:
    """Records of a window before the first batch that begins in it, and its number of batches."""
    base = window * geometry.window_records
    size = min(geometry.window_records, geometry.records - base)
    head = -base % batch_size
    return head, max(0, size - head) // batch_size
