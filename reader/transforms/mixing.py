"""What mixup and CutMix share: who is mixed with whom, by how much, and what that makes of labels.

All of it is a function of the random numbers that the records brought along: who is whose partner
depends on which records are in the batch, but not on their places in it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from reader.transforms.base import Example
from shard_format import UsageError

_STEPS = 2048  # of the table of a beta distribution, for each half
_GRID = 16384  # of the integral behind it


def find_partners(random: Any) -> Any:
    """[batch] int32: for each record another one; in a batch of one, itself.

    The next greater random number is the partner, and the least that of the greatest. The papers'
    code permutes the batch, where a record may be left to itself.

    Args:
        random: [batch] float32.
    """
    order = tf.argsort(random)
    return tf.scatter_nd(order[:, None], tf.roll(order, -1, 0), tf.shape(order))


def beta_quantile(random: Any, alpha: float) -> Any:
    """Float32 in [0, 1], beta distributed with both parameters alpha, from uniform numbers.

    By a table of the inverse distribution: TensorFlow draws from it only by rejection, with bits
    that it may change from version to version.
    """
    table = tf.constant(_beta_table(alpha), tf.float32)
    place = random * (2 * _STEPS)
    below = tf.minimum(tf.cast(place, tf.int32), 2 * _STEPS - 1)
    low, high = tf.gather(table, below), tf.gather(table, below + 1)
    return low + (place - tf.cast(below, tf.float32)) * (high - low)


@functools.cache
def _beta_table(alpha: float) -> Any:
    """[2 x _STEPS + 1] float64: the quantiles of 0, 1 / (2 x _STEPS), ... 1."""
    # The density is x^(a-1) (1-x)^(a-1). Half of it is enough, for it is symmetric. Below 1 it has
    # a pole at 0, which goes when it is integrated over t = x^a.
    power = alpha if alpha < 1 else 1.0
    t = np.linspace(0.0, 0.5**power, _GRID + 1)
    x = t ** (1 / power)
    density = (1 - x) ** (alpha - 1) if alpha < 1 else (4 * x * (1 - x)) ** (alpha - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    wanted = np.linspace(0.0, mass[-1], _STEPS + 1)
    half = np.interp(wanted, mass, t) ** (1 / power)
    return np.concatenate([half, 1 - half[-2::-1]])


def mix_labels(batch: Example, partners: Any, share: Any, name: str) -> Any:
    """[batch, num_classes] float32: the record's labels by its share, its partner's by the rest.

    Args:
        batch: With "label", [batch, num_classes] float32, or several such by name.
        partners: [batch] int32.
        share: [batch] float32 in [0, 1].
        name: Of the transform, for the message.

    Raises:
        UsageError: There are no labels.
    """
    if "label" not in batch:
        raise UsageError(
            f"{name} in augment of reader.load mixes labels, but the set has none. Leave {name} "
            "out."
        )

    def mixed(label: Any) -> Any:
        return label * share[:, None] + tf.gather(label, partners) * (1 - share[:, None])

    return tf.nest.map_structure(mixed, batch["label"])
