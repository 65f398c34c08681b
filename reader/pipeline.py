"""The tf.data chain, from epoch numbers to batches."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from reader.chunks import Chunks
from reader.options import ReadOptions
from reader.payloads import Payloads
from reader.record_types import RecordType
from reader.windows import Windows

# Read while the decoders work on the one before. Each may hold chunks.WINDOW_BYTES.
WINDOWS_AHEAD = 1


def build_dataset(
    chunks: Chunks, payloads: Payloads, records: RecordType, options: ReadOptions
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

    windows = Windows(
        chunks,
        payloads,
        records,
        shuffle=options.shuffle != "off",
        seed=options.seed,
        emitted=emitted,
    )
    dataset = tf.data.Dataset.range(options.epochs or np.iinfo(np.int64).max)  # epoch
    # Epochs end here, before anything that reads or computes: all that follows is one stream, so
    # the first window of an epoch is read while the last one of the epoch before is decoded.
    dataset = dataset.flat_map(windows.of_epoch)  # (epoch, position, [chunks])
    # A window is a pure function of these three. It is read, shuffled and parsed as a whole: that
    # costs 12 us a record for the parse, where one parse per record took 18 us, and no element
    # passes a shuffle buffer.
    dataset = dataset.map(  # ({feature: [n]}, random [n, k])
        windows.read, num_parallel_calls=WINDOWS_AHEAD, deterministic=True
    )
    dataset = dataset.unbatch()  # ({feature: scalar}, random [k])
    # All the work is in this one map; a chain of maps would pay a queue for each link.
    dataset = dataset.map(  # (input, target), or input
        records.decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    dataset = dataset.batch(  # (inputs [batch, ...], targets [batch, ...])
        options.batch_size,
        drop_remainder=options.drops_remainder,  # never drops; it makes the shape static
    )
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(_cardinality(options, emitted)))
    # Last, so that whole batches are ready when the model asks.
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(_options())


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
