"""How long steps wait for their batches, measured inside the graph that runs them.

    asked       the next batch is asked for
    arrived     all of its tensors are there
    finished    the step before is done, on its device

On a GPU the next batch is asked for while the step before is still computed; only what remains of
`arrived` after both is time in which the device had nothing to do. The three clocks and one copy of
a scalar take some microseconds a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Clock = Callable[[], Any]


def no_clock() -> Any:
    """Replaces `tf.timestamp`, which fails where TensorFlow has to be deterministic."""
    return tf.constant(0.0, tf.float64)


def next_batch(batches: Any, clock: Clock) -> tuple[Any, Any, Any]:
    """(the next batch, when it was asked for, when it arrived), in seconds of a clock.

    Args:
        batches: An iterator, of a strategy too; the clock ends when the parts of all devices of
            this process are there.
        clock: Gives a scalar float64.
    """
    asked = clock()
    with tf.control_dependencies([asked]):
        batch = next(batches)
    with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
        arrived = clock()
    return batch, asked, arrived


def finished_at(value: Any, clock: Clock) -> Any:
    """When a device has computed a value, which is copied to the host for that."""
    with tf.device("/cpu:0"):
        copied = tf.identity(value)
    with tf.control_dependencies([copied]):
        return clock()


def waited_between(asked: Any, arrived: Any, finished: Any) -> Any:
    """Seconds that a step waited, float64; `finished` is of the step before, 0 if there is none."""
    return tf.maximum(arrived - tf.maximum(asked, finished), 0.0)
