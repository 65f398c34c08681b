"""`class_sampling` in TensorFlow operations."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from reader.graph import order as graph_order
from reader.order import numpy_order
from reader.order.class_sampling import DRAW_STREAM, SLOT_STREAM, ClassSampler
from reader.order.sampling import Sampler


class GraphSampler:
    """Which record is drawn at a position, in a graph.

    Args:
        sampler: The same in NumPy.
    """

    def __init__(self, sampler: ClassSampler) -> None:
        self._sampler = sampler
        names = ("members", "sizes", "starts", "slots", "class_of", "rank_of")
        self._tensors = {name: tf.constant(getattr(sampler, name)) for name in names}

    def numbers(self, positions: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """[n] int64: the record drawn at each position [n] int64 of an epoch; n is at least 1."""
        own, tensors = self._sampler, self._tensors
        first = tf.reduce_min(positions) // own.num_slots
        last = tf.reduce_max(positions) // own.num_slots
        whole = tf.range(first * own.num_slots, (last + 1) * own.num_slots)
        blocks = whole // own.num_slots
        key = graph_order.epoch_key(SLOT_STREAM, own.seed, epoch)
        key = graph_order.mix(key ^ tf.cast(blocks, tf.uint64))
        rounds = numpy_order.num_rounds(own.num_slots)
        slots = graph_order.permute(whole % own.num_slots, own.num_slots, key, rounds)
        classes = tf.gather(tensors["class_of"], slots)
        sorted_ = tf.argsort((blocks - first) * len(own.slots) + classes, stable=True)
        counted = tf.tile(tensors["rank_of"], [last - first + 1])
        ranks = tf.scatter_nd(sorted_[:, None], counted, tf.shape(sorted_))
        ranks += blocks * tf.gather(tensors["slots"], classes)
        places = positions - first * own.num_slots
        classes, ranks = tf.gather(classes, places), tf.gather(ranks, places)
        sizes = tf.gather(tensors["sizes"], classes)
        key = graph_order.epoch_key(DRAW_STREAM, own.seed, epoch) ^ tf.cast(classes, tf.uint64)
        key = graph_order.mix(graph_order.mix(key) ^ tf.cast(ranks // sizes, tf.uint64))
        # The rounds are those of the largest class: more than a smaller one needs do no harm.
        rounds = numpy_order.num_rounds(own.largest)
        drawn = graph_order.permute(ranks % sizes, sizes, key, rounds)
        return tf.gather(tensors["members"], tf.gather(tensors["starts"], classes) + drawn)


@dataclasses.dataclass(frozen=True)
class CalledSampler:
    """A sampler in Python that a graph calls, which cannot be sent to another process then.

    Attributes:
        sampler: The sampler.
    """

    sampler: Sampler

    def numbers(self, positions: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """[n] int64: the record drawn at each position [n] int64 of an epoch."""
        drawn = tf.numpy_function(self.sampler.numbers, [positions, epoch], tf.int64)
        return tf.ensure_shape(drawn, [None])
