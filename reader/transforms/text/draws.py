"""As many random numbers as the words of a record need, drawn from the record's key."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import graph_order, tf
from reader.order import numpy_order
from shard_format import mix


@dataclasses.dataclass(frozen=True)
class Draws:
    """The random numbers of some records in one epoch, all in [0, 1).

    Attributes:
        keys: [n] uint64, one of each record.
    """

    keys: Any

    def stream(self, number: int) -> Draws:
        """Other numbers of the same records: one stream for each purpose."""
        return Draws(graph_order.mix(self.keys ^ tf.constant(number, tf.uint64)))

    def one(self) -> Any:
        """[n] float32: one number for each record."""
        return graph_order.numbered(self.keys, tf.constant(0, tf.int64))

    def each(self, ragged: Any) -> Any:
        """[number of values] float32: one for each value of a tf.RaggedTensor [n, ragged]."""
        rows = ragged.value_rowids()
        within = tf.range(tf.size(rows, tf.int64)) - tf.gather(ragged.row_starts(), rows)
        return graph_order.numbered(tf.gather(self.keys, rows), within)


@dataclasses.dataclass(frozen=True)
class ArrayDraws:
    """`Draws` in NumPy: the same numbers.

    Attributes:
        keys: [n] uint64, one of each record.
    """

    keys: npt.NDArray[np.uint64]

    def stream(self, number: int) -> ArrayDraws:
        """Other numbers of the same records: one stream for each purpose."""
        return ArrayDraws(mix(self.keys ^ np.uint64(number)))

    def one(self) -> npt.NDArray[np.float32]:
        """[n] float32: one number for each record."""
        return numpy_order.numbered(self.keys, np.zeros(1, np.int64))

    def each(self, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """[sum of lengths] float32: as many numbers for each record as [n] lengths say."""
        ends = np.cumsum(lengths)
        within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        return numpy_order.numbered(np.repeat(self.keys, lengths), within)
