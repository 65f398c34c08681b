"""The tf.data chain, from epoch numbers to batches."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import tensorflow as tf

from reader import order_graph
from reader.chunks import Chunks
from reader.options import ReadOptions
from reader.payloads import Payloads
from reader.record_types import BatchRecords, SingleRecords
from reader.windows import Windows

# Read while the decoders work on the one before. Each may hold chunks.WINDOW_BYTES.
WINDOWS_AHEAD = 1


def build_dataset(
    chunks: Chunks,
    payloads: Payloads,
    records: SingleRecords | BatchRecords,
    options: ReadOptions,
) -> tf.data.Dataset:
    """The data set of one split: (inputs [batch, ...], targets [batch, ...]), or inputs alone.

    Args:
        chunks: The split, cut up.
        payloads: Where the serialized records come from.
        records: How they are parsed and decoded.
        options: Checked against the split already.
    """
    # What an epoch emits: where it drops a remainder, it drops it here. So the records of the
    # remainder are not decoded, and since every epoch is a multiple of the batch, the one batch()
    # at the end never mixes two epochs.
    emitted = chunks.num_records
    if options.drops_remainder:
        emitted -= emitted % options.batch_size

    by_batch = hasattr(records, "decode_batch")
    lengths = cast(BatchRecords, records).lengths if by_batch else None
    windows = Windows(chunks, payloads, options, emitted, lengths)
    dataset = tf.data.Dataset.range(options.epochs or np.iinfo(np.int64).max)  # epoch
    # Epochs end here, before anything that reads or computes: all that follows is one stream, so
    # the first window of an epoch is read while the last one of the epoch before is decoded.
    dataset = dataset.flat_map(windows.of_epoch)  # (epoch, position, [chunks])
    if by_batch:
        dataset = _decoded_in_batches(dataset, windows, cast(BatchRecords, records), options)
    else:
        dataset = _decoded_one_by_one(dataset, windows, cast(SingleRecords, records), options)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(_cardinality(options, emitted)))
    # Last, so that whole batches are ready when the model asks.
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(_options())


def _decoded_one_by_one(
    dataset: tf.data.Dataset, windows: Windows, records: SingleRecords, options: ReadOptions
) -> tf.data.Dataset:
    """Batches of records each of which is work enough for a call: pictures."""

    def read(epoch: Any, position: Any, chunks: Any) -> Any:
        serialized, numbers = windows.read(epoch, position, chunks)
        # At least one, wanted or not: unbatch() of a tensor [n, 0] ends the process (TF 2.21).
        count = max(1, records.num_random)
        return records.parse(serialized), order_graph.uniforms(numbers, count, options.seed, epoch)

    # A window is a pure function of these three. It is read, shuffled and parsed as a whole: that
    # costs 12 us a record for the parse, where one parse per record took 18 us, and no element
    # passes a shuffle buffer.
    dataset = dataset.map(  # ({feature: [n]}, random [n, k])
        read, num_parallel_calls=WINDOWS_AHEAD, deterministic=True
    )
    dataset = dataset.unbatch()  # ({feature: scalar}, random [k])
    # All the work is in this one map; a chain of maps would pay a queue for each link.
    dataset = dataset.map(  # (input, target), or input
        records.decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    return dataset.batch(  # (inputs [batch, ...], targets [batch, ...])
        options.batch_size,
        drop_remainder=options.drops_remainder,  # never drops; it makes the shape static
    )


def _decoded_in_batches(
    dataset: tf.data.Dataset, windows: Windows, records: BatchRecords, options: ReadOptions
) -> tf.data.Dataset:
    """Batches of records that take a microsecond each, less than a call would: text."""

    def read(epoch: Any, position: Any, chunks: Any) -> Any:
        serialized, numbers = windows.read(epoch, position, chunks)
        return serialized, order_graph.augment_keys(numbers, options.seed, epoch)

    dataset = dataset.map(  # ([n] string, [n] uint64)
        read, num_parallel_calls=WINDOWS_AHEAD, deterministic=True
    )
    # Still serialized: a string is passed on by reference, a ragged row would be copied.
    dataset = dataset.rebatch(  # ([batch] string, [batch] uint64)
        options.batch_size,
        drop_remainder=options.drops_remainder,  # never drops; it makes the shape static
    )
    return dataset.map(  # (inputs, targets), inputs, or (inputs, targets, weights)
        records.decode_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )


def _cardinality(options: ReadOptions, emitted: int) -> int:
    """Batches; INFINITE makes Keras ask for steps_per_epoch and not wait for an end."""
    if options.epochs is None:
        return int(tf.data.INFINITE_CARDINALITY)
    return options.epochs * -(-emitted // options.batch_size)


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # A strategy must not shard by file behind our back: order and shares are the reader's.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return options
