"""The order of an epoch and the random numbers of its records, as pure functions (numpy).

An epoch is computed, not buffered: the chunks of the split are permuted, cut into windows of
`window_chunks`, and the records of each window are permuted. So the record at any position of any
epoch follows from (shard set, seed, epoch), and resuming is arithmetic. `order_graph` is the same
in TensorFlow operations, because tf.data must not call back into Python; tests hold them equal.

Permutations are sorts by a hash (`shard_format.mix`). Not numpy's Generator: its streams may
change between versions of numpy (NEP 19), and a resumed run must not depend on the version. `mix`
is a bijection, so keys are distinct and every correct sort gives the same permutation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reader.chunks import Chunks, Int64Array
from shard_format import mix

# One independent stream of hashes per purpose; the numbers are ASCII, and part of the order.
CHUNK_STREAM = 0x4348554E4B  # "CHUNK"
RECORD_STREAM = 0x5245434F5244  # "RECORD"
AUGMENT_STREAM = 0x4155474D454E54  # "AUGMENT"
BATCH_STREAM = 0x4241544348  # "BATCH"

UInt64Array = npt.NDArray[np.uint64]


def stream_key(stream: int, seed: int) -> UInt64Array:
    """[1] uint64: what sets this stream and seed apart from all others."""
    return mix(np.array([stream], np.uint64) ^ mix(np.array([seed], np.uint64)))


def epoch_key(stream: int, seed: int, epoch: int) -> UInt64Array:
    """[1] uint64: what sets this epoch of the stream apart."""
    return mix(stream_key(stream, seed) ^ np.uint64(epoch))


def chunk_order(chunks: Chunks, seed: int, epoch: int, shuffle: bool) -> Int64Array:
    """[num_chunks] int64: the chunks of an epoch in the order in which they are read."""
    numbers = np.arange(len(chunks.first), dtype=np.uint64)
    if not shuffle:
        return numbers.astype(np.int64)
    return np.argsort(mix(epoch_key(CHUNK_STREAM, seed, epoch) ^ numbers)).astype(np.int64)


def epoch_order(chunks: Chunks, seed: int, epoch: int, shuffle: bool) -> Int64Array:
    """[num_records] int64: the record number at every position of an epoch.

    Args:
        chunks: The split.
        seed: In [0, 2**63).
        epoch: In [0, 2**63).
        shuffle: False gives the order on disk.
    """
    order = chunk_order(chunks, seed, epoch, shuffle)
    windows = [
        window_order(chunks, order[start : start + chunks.window_chunks], seed, epoch, shuffle)
        for start in range(0, len(order), chunks.window_chunks)
    ]
    return np.concatenate(windows)


def window_order(
    chunks: Chunks, window: Int64Array, seed: int, epoch: int, shuffle: bool
) -> Int64Array:
    """[records of the window] int64: the record numbers of some chunks in reading order."""
    records = np.concatenate(
        [np.arange(chunks.first[c], chunks.first[c] + chunks.count[c]) for c in window]
    )
    if not shuffle:
        return records
    keys = mix(epoch_key(RECORD_STREAM, seed, epoch) ^ records.astype(np.uint64))
    return np.asarray(records[np.argsort(keys)])


def bucket_order(
    lengths: Int64Array, position: int, batch_size: int, buckets: int, seed: int, epoch: int
) -> Int64Array:
    """[n] int64: where, among the shuffled records of a window, to find the next one to emit.

    The records are divided by rank of length into `buckets` groups of nearly equal size, shuffled
    within each; whole batches are cut from them, and shuffled. What completes the last batch of
    the window before, and what begins one that the next window completes, are of the shortest
    group on both sides, so that these batches are of similar length too.

    Args:
        lengths: [n] of the records, in shuffled order.
        position: How many records of the epoch come before the window.
        batch_size: Records per batch.
        buckets: Number of groups.
        seed: In [0, 2**63).
        epoch: In [0, 2**63).
    """
    count = len(lengths)
    ranks = np.empty(count, np.int64)
    ranks[np.argsort(lengths, kind="stable")] = np.arange(count)
    grouped = np.argsort(ranks * buckets // max(1, count), kind="stable")
    head = min(-position % batch_size, count)
    tail = (count - head) % batch_size
    whole = grouped[head + tail :].reshape(-1, batch_size)
    numbers = np.arange(len(whole), dtype=np.uint64) + np.uint64(position)
    whole = whole[np.argsort(mix(epoch_key(BATCH_STREAM, seed, epoch) ^ numbers))]
    return np.concatenate([grouped[:head], whole.ravel(), grouped[head : head + tail]])


def uniforms(records: Any, count: int, seed: int, epoch: int) -> npt.NDArray[np.float32]:
    """[n, count] float32 in [0, 1): the random numbers of these records in this epoch.

    Args:
        records: [n] record numbers.
        count: Numbers per record.
        seed: In [0, 2**63).
        epoch: In [0, 2**63).
    """
    keys = mix(epoch_key(AUGMENT_STREAM, seed, epoch) ^ np.asarray(records, np.uint64))
    bits = mix(keys[:, None] ^ np.arange(count, dtype=np.uint64)) >> np.uint64(40)
    return bits.astype(np.float32) * np.float32(2**-24)  # 24 bits: exact in a float32
