"""`numpy_order` and `buckets` in TensorFlow operations: the same numbers, inside a graph.

A twin and not tf.numpy_function: that would hold the GIL against the training loop, and a graph
with Python in it can be neither serialized nor served by tf.data service. Scalars such as epoch and
window are int64 tensors here; what is fixed for a stream is a Python number.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, cast

import numpy as np
import tensorflow as tf

from reader.order.geometry import Geometry
from reader.order.numpy_order import (
    AUGMENT_STREAM,
    BATCH_STREAM,
    BLOCK_BITS,
    CHUNK_STREAM,
    GROUP_BITS,
    RECORD_STREAM,
    ROTATE_STREAM,
    SWAP_STREAM,
    num_rounds,
    stream_key,
)

_uint64 = functools.partial(tf.constant, dtype=tf.uint64)

# Rounds of `permute` in one turn of its loop; they are always a multiple of it.
UNROLLED = 8


def mix(values: Any) -> Any:
    """`shard_format.mix` on a uint64 tensor of any shape."""
    z = values + _uint64(0x9E3779B97F4A7C15)
    z = (z ^ _shifted(z, 30)) * _uint64(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _uint64(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def epoch_key(stream: int, seed: int, epoch: Any) -> Any:
    """Scalar uint64: `numpy_order.epoch_key`."""
    return mix(_uint64(int(stream_key(stream, seed)[0])) ^ tf.cast(epoch, tf.uint64))


def permute(values: Any, count: Any, key: Any, rounds: Any) -> Any:
    """[n] int64: `numpy_order.permute`; with a key for each value, `count` may be [n], too."""
    if not key.shape.rank:
        return _permute_alike(values, count, key, rounds)
    count = tf.broadcast_to(tf.cast(count, tf.int64), tf.shape(key))
    return _permute_each(values, count, key, rounds)


def _permuted(values: Any, count: Any, key: Any, rounds: Any) -> Any:
    """`permute` as operations.

    What depends on the round alone is computed for all rounds at once. Then a loop, not a chain:
    unrolled it would be some thousand operations; some rounds at a time, for a loop costs too.
    """
    numbers = tf.range(rounds)
    if key.shape.rank:
        numbers = numbers[:, None]
    keys = mix(key ^ tf.cast(numbers, tf.uint64))  # [rounds] or [rounds, n]
    sums = tf.cast(_shifted(keys, 1), tf.int64) % count
    keys = mix(keys ^ _uint64(SWAP_STREAM))
    # [rounds] + ... -> [rounds / UNROLLED, UNROLLED] + ...
    shape = tf.concat([[-1, UNROLLED], tf.shape(keys)[1:]], axis=0)
    keys, sums = tf.reshape(keys, shape), tf.reshape(sums, shape)

    def swap(number: Any, values: Any) -> Any:
        of_rounds = zip(
            tf.unstack(sums[number], UNROLLED), tf.unstack(keys[number], UNROLLED), strict=True
        )
        for total, key in of_rounds:
            partner = total - values  # both in [0, count)
            partner = tf.where(partner < 0, partner + count, partner)
            common = tf.bitcast(tf.maximum(values, partner), tf.uint64)
            swapped = tf.bitcast(mix(common ^ key), tf.int64) < 0  # the top bit
            values = tf.where(swapped, partner, values)
        return number + 1, values

    start = (tf.constant(0, tf.int64), values)
    return tf.while_loop(
        lambda number, _: number < rounds // UNROLLED,
        swap,
        start,
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        parallel_iterations=1,
    )[1]


def _traced_once(function: Any, *signature: Any) -> Any:
    """The function, traced once in a process, for all streams: `reader.load` is mostly tracing."""
    return tf.function(function, input_signature=signature, autograph=False)


_SCALAR, _VECTOR = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.int64)
_KEY, _KEYS = tf.TensorSpec([], tf.uint64), tf.TensorSpec([None], tf.uint64)
_permute_alike = _traced_once(_permuted, _VECTOR, _SCALAR, _KEY, _SCALAR)
_permute_each = _traced_once(_permuted, _VECTOR, _VECTOR, _KEYS, _SCALAR)


def window_order(
    geometry: Geometry,
    window: Any,
    residue: Any,
    workers: int,
    seed: int,
    epoch: Any,
    shuffle: str,
) -> tuple[Any, Any]:
    """([m] int64 record numbers, [m] int64 places): `numpy_order.window_order`."""
    if shuffle == "window":
        sizes, keys = _block_inputs(geometry, seed, epoch)
        return cast(tuple[Any, Any], _block_order(sizes, keys, window, residue, workers))
    if shuffle not in ("full", "off"):
        raise ValueError(f"unknown order of epochs {shuffle!r}")
    base, size = _extent(geometry, window)
    begin = base + residue
    numbers = tf.range(begin, tf.maximum(base + size, begin), workers)
    if shuffle == "full":
        key = epoch_key(RECORD_STREAM, seed, epoch)
        numbers = permute(numbers, geometry.records, key, num_rounds(geometry.records))
    return numbers, tf.range(tf.size(numbers, tf.int64))


def block_numbers(
    geometry: Geometry, window: Any, residue: Any, workers: int, seed: int, epoch: Any
) -> tuple[Any, Any]:
    """([m] int64 record numbers, [m] int64 blocks): `numpy_order.block_numbers`."""
    sizes, keys = _block_inputs(geometry, seed, epoch)
    return cast(tuple[Any, Any], _block_numbers(sizes, keys, window, residue, workers))


def _block_inputs(geometry: Geometry, seed: int, epoch: Any) -> tuple[Any, Any]:
    """What sets this split and this epoch apart from all others.

    Returns:
        sizes: [5] int64, the fields of the geometry and the rounds of `permute` for its chunks.
        keys: [3] uint64, the epoch's keys of chunks, rotation and records.
    """
    rounds = num_rounds(max(1, geometry.num_chunks))
    sizes = tf.constant([*dataclasses.astuple(geometry), rounds], tf.int64)
    streams = (CHUNK_STREAM, ROTATE_STREAM, RECORD_STREAM)
    # An array, since TensorFlow 2.21 makes doubles of a list of large numbers in a graph.
    keys = np.concatenate([stream_key(stream, seed) for stream in streams])
    return sizes, mix(tf.constant(keys) ^ tf.cast(epoch, tf.uint64))


def _ordered_blocks(
    sizes: Any, keys: Any, window: Any, residue: Any, workers: Any
) -> tuple[Any, Any]:
    """`window_order` with shuffle="window" as operations; see `_block_inputs`."""
    numbers, blocks = _numbered_blocks(sizes, keys, window, residue, workers)
    hashes = mix(keys[2] ^ tf.cast(numbers, tf.uint64))
    order = blocks * (1 << BLOCK_BITS) + tf.cast(_shifted(hashes, 64 - BLOCK_BITS), tf.int64)
    return numbers, weave(_argsort(order), blocks)


def _numbered_blocks(
    sizes: Any, keys: Any, window: Any, residue: Any, workers: Any
) -> tuple[Any, Any]:
    """`block_numbers` as operations; see `_block_inputs`."""
    geometry = Geometry(*tf.unstack(sizes[:-1]))  # of scalar tensors
    base, size = _extent(geometry, window)
    own = residue + tf.range(geometry.streams // workers) * workers
    shorter, longer = size // geometry.streams, size % geometry.streams
    starts = base + own * shorter + tf.minimum(own, longer)
    counts = shorter + tf.cast(own < longer, tf.int64)
    blocks = tf.repeat(tf.range(tf.size(own, tf.int64)), counts)
    places = tf.ragged.range(starts, starts + counts).flat_values

    chunk = geometry.chunk_records
    first = base // chunk
    chunks = tf.range(first, (base + size - 1) // chunk + 1)
    # Outside its domain `permute` means nothing; there the chunk stays where it is.
    domain = tf.maximum(geometry.num_chunks, 1)
    permuted = permute(tf.minimum(chunks, domain - 1), domain, keys[0], sizes[-1])
    chunks = tf.where(chunks < geometry.num_chunks, permuted, chunks)
    records = tf.gather(chunks, places // chunk - first) * chunk + places % chunk
    rotation = tf.cast(_shifted(keys[1], 1), tf.int64) % geometry.records
    return (records + rotation) % geometry.records, blocks


_TASK = (tf.TensorSpec([5], tf.int64), tf.TensorSpec([3], tf.uint64), _SCALAR, _SCALAR, _SCALAR)
_block_order = _traced_once(_ordered_blocks, *_TASK)
_block_numbers = _traced_once(_numbered_blocks, *_TASK)


def weave(ordered: Any, blocks: Any) -> Any:
    """[m] int64: `numpy_order.weave`."""
    count = tf.size(blocks, tf.int64)
    starts = tf.searchsorted(blocks, blocks, side="left", out_type=tf.int64)
    ranks = tf.range(count) - starts
    return tf.gather(ordered, _argsort(ranks * (count + 1) + blocks))


def bucket_order(
    geometry: Geometry,
    lengths: Any,
    window: Any,
    residue: Any,
    workers: int,
    batch_size: int,
    buckets: int,
    seed: int,
    epoch: Any,
) -> tuple[Any, Any]:
    """([m] int64 record numbers, [m] int64 places): `buckets.bucket_order`.

    Here `lengths` is a function from [m] int64 record numbers to [m] int64.
    """
    numbers, blocks = block_numbers(geometry, window, residue, workers, seed, epoch)
    count = tf.size(numbers, tf.int64)
    starts = tf.searchsorted(blocks, blocks, side="left", out_type=tf.int64)
    sizes = tf.searchsorted(blocks, blocks, side="right", out_type=tf.int64) - starts
    by_length = _argsort(blocks * (1 << GROUP_BITS) + lengths(numbers))
    ranks = tf.scatter_nd(by_length[:, None], tf.range(count) - starts, [count])
    groups = ranks * buckets // sizes
    groups = tf.where(window % 2 == 1, buckets - 1 - groups, groups)
    hashes = mix(epoch_key(RECORD_STREAM, seed, epoch) ^ tf.cast(numbers, tf.uint64))
    keys = blocks * (1 << BLOCK_BITS) + groups * (1 << GROUP_BITS)
    keys += tf.cast(_shifted(hashes, 64 - GROUP_BITS), tf.int64)
    woven = weave(_argsort(keys), blocks)

    base, size = _extent(geometry, window)
    head = -base % batch_size
    num_batches = tf.maximum(size - head, 0) // batch_size
    begin, own = tf.minimum(head // workers, count), batch_size // workers
    end = begin + num_batches * own
    positions = tf.cast(base + head + tf.range(num_batches) * batch_size, tf.uint64)
    hashes = mix(epoch_key(BATCH_STREAM, seed, epoch) ^ positions)
    # TensorFlow sorts signed numbers; flipping the top bit keeps the order of unsigned ones.
    places = _argsort(tf.bitcast(hashes ^ _uint64(1 << 63), tf.int64))
    whole = tf.gather(tf.reshape(woven[begin:end], [-1, own]), places)
    return numbers, tf.concat([woven[:begin], tf.reshape(whole, [-1]), woven[end:]], axis=0)


def augment_keys(draws: Any, seed: int, epoch: Any) -> Any:
    """[n] uint64: what all random numbers of these records in this epoch are drawn from."""
    return mix(epoch_key(AUGMENT_STREAM, seed, epoch) ^ tf.cast(draws, tf.uint64))


def uniforms(draws: Any, count: int, seed: int, epoch: Any) -> Any:
    """[n, count] float32 in [0, 1): the random numbers of these records in this epoch."""
    numbers = tf.range(count, dtype=tf.int64)
    return numbered(augment_keys(draws, seed, epoch)[:, None], numbers)


def numbered(keys: Any, numbers: Any) -> Any:
    """Float32 in [0, 1): of each key (uint64) the random number of this number (int64)."""
    bits = _shifted(mix(keys ^ tf.cast(numbers, tf.uint64)), 40)
    return tf.cast(bits, tf.float32) * 2**-24  # 24 bits: exact in a float32


def _extent(geometry: Geometry, window: Any) -> tuple[Any, Any]:
    base = window * geometry.window_records
    return base, tf.minimum(geometry.records - base, geometry.window_records)


def _argsort(keys: Any) -> Any:
    return tf.cast(tf.argsort(keys, stable=True), tf.int64)


def _shifted(values: Any, bits: int) -> Any:
    return tf.bitwise.right_shift(values, _uint64(bits))
