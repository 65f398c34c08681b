"""`reader.order` in TensorFlow operations: the same numbers, inside a tf.data graph.

A twin and not tf.numpy_function: that would hold the GIL against the training loop, and a graph
with Python in it can be neither serialized nor served by tf.data service.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.order import AUGMENT_STREAM, BATCH_STREAM, CHUNK_STREAM, RECORD_STREAM, stream_key

_SIGN = 1 << 63


def mix(values: Any) -> Any:
    """`shard_format.mix` on a uint64 tensor of any shape."""
    z = values + _uint64(0x9E3779B97F4A7C15)
    z = (z ^ _shifted(z, 30)) * _uint64(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _uint64(0x94D049BB133111EB)
    return z ^ _shifted(z, 31)


def epoch_key(stream: int, seed: int, epoch: Any) -> Any:
    """Scalar uint64: `reader.order.epoch_key` of a scalar int64 epoch."""
    return mix(_uint64(int(stream_key(stream, seed)[0])) ^ tf.cast(epoch, tf.uint64))


def chunk_order(num_chunks: int, seed: int, epoch: Any, shuffle: bool) -> Any:
    """[num_chunks] int64: `reader.order.chunk_order`."""
    numbers = tf.range(num_chunks, dtype=tf.int64)
    if not shuffle:
        return numbers
    return _argsort(mix(epoch_key(CHUNK_STREAM, seed, epoch) ^ tf.cast(numbers, tf.uint64)))


def record_order(records: Any, seed: int, epoch: Any, shuffle: bool) -> Any:
    """[n] int64: where, among the n records of a window, to find the next one to emit.

    Args:
        records: [n] int64, the record numbers of the window in the order of their chunks.
        seed: In [0, 2**63).
        epoch: Scalar int64.
        shuffle: False gives 0, 1, 2, ...
    """
    if not shuffle:
        return tf.range(tf.size(records, tf.int64), dtype=tf.int64)
    return _argsort(mix(epoch_key(RECORD_STREAM, seed, epoch) ^ tf.cast(records, tf.uint64)))


def bucket_order(
    lengths: Any, position: Any, batch_size: int, buckets: int, seed: int, epoch: Any
) -> Any:
    """[n] int64: `reader.order.bucket_order` of [n] int64 lengths and a scalar int64 position."""
    count = tf.size(lengths, tf.int64)
    by_length = _stable_argsort(lengths)
    ranks = tf.scatter_nd(by_length[:, None], tf.range(count), [count])
    grouped = _stable_argsort(ranks * buckets // tf.maximum(count, 1))
    head = tf.minimum(-position % batch_size, count)
    tail = (count - head) % batch_size
    whole = tf.reshape(grouped[head + tail :], [-1, batch_size])
    numbers = tf.cast(tf.range(tf.shape(whole, tf.int64)[0]) + position, tf.uint64)
    order = _argsort(mix(epoch_key(BATCH_STREAM, seed, epoch) ^ numbers))
    whole = tf.reshape(tf.gather(whole, order), [-1])
    return tf.concat([grouped[:head], whole, grouped[head : head + tail]], axis=0)


def augment_keys(records: Any, seed: int, epoch: Any) -> Any:
    """[n] uint64: what all random numbers of these records in this epoch are drawn from."""
    return mix(epoch_key(AUGMENT_STREAM, seed, epoch) ^ tf.cast(records, tf.uint64))


def uniforms(records: Any, count: int, seed: int, epoch: Any) -> Any:
    """[n, count] float32 in [0, 1): `reader.order.uniforms`."""
    numbers = tf.range(count, dtype=tf.int64)
    return numbered(augment_keys(records, seed, epoch)[:, None], numbers)


def numbered(keys: Any, numbers: Any) -> Any:
    """Float32 in [0, 1): of each key (uint64) the random number of this number (int64)."""
    bits = _shifted(mix(keys ^ tf.cast(numbers, tf.uint64)), 40)
    return tf.cast(bits, tf.float32) * 2**-24


def _stable_argsort(values: Any) -> Any:
    """[n] int64 of small values >= 0: equal ones keep their order, whatever tf.argsort does."""
    count = tf.size(values, tf.int64)
    return tf.cast(tf.argsort(values * count + tf.range(count)), tf.int64)


def _argsort(keys: Any) -> Any:
    # TensorFlow sorts signed integers; flipping the top bit keeps the order of unsigned ones.
    signed = tf.bitcast(keys ^ _uint64(_SIGN), tf.int64)
    return tf.cast(tf.argsort(signed), tf.int64)


def _shifted(values: Any, bits: int) -> Any:
    return tf.bitwise.right_shift(values, _uint64(bits))


def _uint64(value: int) -> Any:
    return tf.constant(value, tf.uint64)
