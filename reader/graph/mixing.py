"""The batches of a mixture in TensorFlow operations."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from reader.opening import Opened
from reader.order.mixture import MixturePlan


def mixed(
    opened: Sequence[Opened], plan: MixturePlan, position: int, workers: int
) -> tf.data.Dataset:
    """A worker's share of all batches from a position of the mixture on, without end."""
    elements = []
    for one, before in zip(opened, plan.before(position).tolist(), strict=True):
        epoch, inside = divmod(before, one.info.records)
        elements.append(one.pipeline.elements(one.pipeline.windows.endless(epoch, inside)))
    size = opened[0].info.batch_size
    choices = tf.data.Dataset.from_generator(
        functools.partial(_choices, plan, position, size, workers),
        output_signature=tf.TensorSpec([size // workers], tf.int64),
    )
    chosen = tf.data.Dataset.choose_from_datasets(
        elements, choices.unbatch(), stop_on_empty_dataset=True
    )
    return opened[0].pipeline.batched(chosen)


def _choices(plan: MixturePlan, position: int, size: int, workers: int) -> Iterator[np.ndarray]:
    """[batch] int64: the set of each of a worker's records, without end."""
    for batch in plan.batches(position, size, workers):
        sets, counts = np.array(batch, np.int64).T
        yield np.repeat(sets, counts)
