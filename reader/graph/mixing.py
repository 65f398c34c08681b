"""The batches of a mixture in TensorFlow operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from reader.graph import order as graph_order
from reader.opening import Opened
from reader.order import numpy_order
from reader.order.mixture import MIXTURE_STREAM, MixturePlan


def mixed(
    opened: Sequence[Opened], plan: MixturePlan, position: int, workers: int
) -> tf.data.Dataset:
    """A worker's share of all batches from a position of the mixture on, without end."""
    elements = []
    for one, before in zip(opened, plan.before(position).tolist(), strict=True):
        epoch, inside = divmod(before, one.info.records)
        elements.append(one.pipeline.elements(one.pipeline.windows.endless(epoch, inside)))
    chosen = tf.data.Dataset.choose_from_datasets(
        elements, choices(plan, position, workers), stop_on_empty_dataset=True
    )
    return opened[0].pipeline.batched(chosen)


def choices(plan: MixturePlan, position: int, workers: int) -> tf.data.Dataset:
    """The set of each of a worker's positions from one on, without end: scalar int64."""
    groups, rest = divmod(position, plan.group)
    blocks, inside = divmod(groups, plan.num_slots)
    sets = tf.constant(np.repeat(np.arange(len(plan.slots)), plan.slots))
    key = tf.constant(int(numpy_order.stream_key(MIXTURE_STREAM, plan.seed)[0]), tf.uint64)
    own = plan.group // workers

    def block(number: Any) -> tf.data.Dataset:
        places = tf.range(plan.num_slots, dtype=tf.int64)
        own_key = graph_order.mix(key ^ tf.cast(number, tf.uint64))
        rounds = numpy_order.num_rounds(plan.num_slots)
        places = graph_order.permute(places, plan.num_slots, own_key, rounds)
        return tf.data.Dataset.from_tensor_slices(tf.repeat(tf.gather(sets, places), own))

    choices = tf.data.Dataset.range(blocks, tf.int64.max).flat_map(block)
    return choices.skip(inside * own + rest // workers)
