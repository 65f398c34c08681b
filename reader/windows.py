"""The windows of an epoch: which there are, and what one holds. In TensorFlow operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader import order_graph
from reader.chunks import Chunks
from reader.payloads import Payloads
from reader.record_types import RecordType


class Windows:
    """A split as windows; each a pure function of (epoch, position, chunk numbers).

    Args:
        chunks: The split, cut up.
        payloads: Where the serialized records come from.
        records: How they are parsed.
        shuffle: False gives the order on disk.
        seed: Of the order and of the random numbers.
        emitted: Records per epoch; those after that many are left out.
    """

    def __init__(
        self,
        chunks: Chunks,
        payloads: Payloads,
        records: RecordType,
        *,
        shuffle: bool,
        seed: int,
        emitted: int,
    ) -> None:
        self._num_chunks = len(chunks.first)
        self._window_chunks = chunks.window_chunks
        # Made here, eagerly: as constants inside the graph, the chunks of a large split would
        # not fit the 2 GB that a graph may have.
        self._first, self._count = tf.constant(chunks.first), tf.constant(chunks.count)
        self._payloads = payloads
        self._records = records
        self._shuffle, self._seed, self._emitted = shuffle, seed, emitted

    def of_epoch(self, epoch: Any) -> tf.data.Dataset:
        """(epoch, position of the first record, [c] chunk numbers) of every window, in order."""
        order = order_graph.chunk_order(self._num_chunks, self._seed, epoch, self._shuffle)
        positions = tf.cumsum(tf.gather(self._count, order), exclusive=True)
        windows = tf.data.Dataset.from_tensor_slices((order, positions))
        return windows.batch(self._window_chunks).map(
            lambda chunks, positions: (epoch, positions[0], chunks)
        )

    def read(self, epoch: Any, position: Any, chunks: Any) -> tuple[dict[str, Any], Any]:
        """The records of one window in the order of the epoch, and their random numbers.

        Args:
            epoch: Scalar int64.
            position: Scalar int64, how many records of the epoch come before the window.
            chunks: [c] int64.

        Returns:
            ({feature: [n]}, [n, at least num_random] float32).
        """
        first = tf.gather(self._first, chunks)
        numbers = tf.ragged.range(first, first + tf.gather(self._count, chunks)).flat_values
        wanted = order_graph.record_order(numbers, self._seed, epoch, self._shuffle)
        wanted = wanted[: tf.maximum(self._emitted - position, 0)]
        serialized = self._payloads.read(chunks, numbers, wanted)
        # At least one, wanted or not: unbatch() of a tensor [n, 0] ends the process (TF 2.21).
        count = max(1, self._records.num_random)
        random = order_graph.uniforms(tf.gather(numbers, wanted), count, self._seed, epoch)
        return self._records.parse(serialized), random
