"""The windows of an epoch: which there are, and what one holds. In TensorFlow operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader import order_graph
from reader.chunks import Chunks, Int64Array
from reader.options import ReadOptions
from reader.payloads import Payloads


class Windows:
    """A split as windows; each a pure function of (epoch, position, chunk numbers).

    Args:
        chunks: The split, cut up.
        payloads: Where the serialized records come from.
        options: Order, seed, and how batches are made.
        emitted: Records per epoch; those after that many are left out.
        lengths: [num_records] by which batches of similar length are made, where the options ask
            for such: 4 bytes of memory a record.
    """

    def __init__(
        self,
        chunks: Chunks,
        payloads: Payloads,
        options: ReadOptions,
        emitted: int,
        lengths: Int64Array | None = None,
    ) -> None:
        self._num_chunks = len(chunks.first)
        self._window_chunks = chunks.window_chunks
        # Made here, eagerly: as constants inside the graph, the chunks of a large split would
        # not fit the 2 GB that a graph may have.
        self._first, self._count = tf.constant(chunks.first), tf.constant(chunks.count)
        self._lengths = None if lengths is None else tf.constant(lengths, tf.int32)
        self._payloads = payloads
        self._shuffle, self._seed, self._emitted = options.shuffle != "off", options.seed, emitted
        self._batch_size, self._buckets = options.batch_size, options.buckets

    def of_epoch(self, epoch: Any) -> tf.data.Dataset:
        """(epoch, position of the first record, [c] chunk numbers) of every window, in order."""
        order = order_graph.chunk_order(self._num_chunks, self._seed, epoch, self._shuffle)
        positions = tf.cumsum(tf.gather(self._count, order), exclusive=True)
        windows = tf.data.Dataset.from_tensor_slices((order, positions))
        return windows.batch(self._window_chunks).map(
            lambda chunks, positions: (epoch, positions[0], chunks)
        )

    def read(self, epoch: Any, position: Any, chunks: Any) -> tuple[Any, Any]:
        """The records of one window in the order of the epoch.

        Args:
            epoch: Scalar int64.
            position: Scalar int64, how many records of the epoch come before the window.
            chunks: [c] int64.

        Returns:
            ([n] string tf.train.Examples, [n] int64 record numbers).
        """
        first = tf.gather(self._first, chunks)
        numbers = tf.ragged.range(first, first + tf.gather(self._count, chunks)).flat_values
        wanted = order_graph.record_order(numbers, self._seed, epoch, self._shuffle)
        wanted = wanted[: tf.maximum(self._emitted - position, 0)]
        if self._lengths is not None:
            lengths = tf.cast(tf.gather(self._lengths, tf.gather(numbers, wanted)), tf.int64)
            similar = order_graph.bucket_order(
                lengths, position, self._batch_size, self._buckets, self._seed, epoch
            )
            wanted = tf.gather(wanted, similar)
        return self._payloads.read(chunks, numbers, wanted), tf.gather(numbers, wanted)
