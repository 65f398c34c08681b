"""Which set every position of a mixture is of, as a function of seed and position.

group    so many positions after each other are of one set; worker counts must divide it
block    some thousand groups; every set has as many of them as its weight says, in another
order in every block
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from reader.order import graph_order, numpy_order
from shard_format import mix

MIXTURE_STREAM = 0x4D4958  # "MIX"


@dataclasses.dataclass(frozen=True)
class MixturePlan:
    """Which set every group of a mixture is of.

    Attributes:
        slots: [num_sets] int64 groups of each set in a block.
        group: Positions of a group.
        seed: In [0, 2**63).
    """

    slots: numpy_order.Int64Array
    group: int
    seed: int

    @property
    def num_slots(self) -> int:
        """Groups of a block."""
        return int(self.slots.sum())

    def block(self, number: int) -> numpy_order.Int64Array:
        """[num_slots] int64: the set of every group of a block."""
        key = mix(numpy_order.stream_key(MIXTURE_STREAM, self.seed) ^ np.uint64(number))
        places = numpy_order.permute(np.arange(self.num_slots), self.num_slots, key)
        return np.repeat(np.arange(len(self.slots)), self.slots)[places]

    def before(self, position: int) -> numpy_order.Int64Array:
        """[num_sets] int64: how many positions of each set come before one of the mixture."""
        groups, rest = divmod(position, self.group)
        blocks, inside = divmod(groups, self.num_slots)
        sets = self.block(blocks)
        counts = np.bincount(sets[:inside], minlength=len(self.slots)) + blocks * self.slots
        counts *= self.group
        counts[sets[inside]] += rest
        return counts

    def choices(self, position: int, workers: int) -> tf.data.Dataset:
        """The set of each of a worker's positions from one on, without end: scalar int64."""
        groups, rest = divmod(position, self.group)
        blocks, inside = divmod(groups, self.num_slots)
        sets = tf.constant(np.repeat(np.arange(len(self.slots)), self.slots))
        key = tf.constant(int(numpy_order.stream_key(MIXTURE_STREAM, self.seed)[0]), tf.uint64)
        own = self.group // workers

        def block(number: Any) -> tf.data.Dataset:
            places = tf.range(self.num_slots, dtype=tf.int64)
            own_key = graph_order.mix(key ^ tf.cast(number, tf.uint64))
            rounds = numpy_order.num_rounds(self.num_slots)
            places = graph_order.permute(places, self.num_slots, own_key, rounds)
            return tf.data.Dataset.from_tensor_slices(tf.repeat(tf.gather(sets, places), own))

        choices = tf.data.Dataset.range(blocks, tf.int64.max).flat_map(block)
        return choices.skip(inside * own + rest // workers)
