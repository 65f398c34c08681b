"""One copy of the variables on the CPU, and steps on every GPU: for models larger than a GPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from typing_extensions import override


class _Central(tf.distribute.experimental.CentralStorageStrategy):
    """Variables that layers update in a step (moving means, seeds) take the first replica's.

    TensorFlow refuses to update them without such a rule, and Keras 3.15 gives none.
    """

    @override
    @contextlib.contextmanager
    def scope(self) -> Iterator[Any]:
        with super().scope() as scope, tf.variable_creator_scope(_of_first_replica):
            yield scope


def create() -> Any:
    """A CentralStorageStrategy over all GPUs, or over all logical CPU devices without a GPU."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return _Central([device.name for device in devices], "/cpu:0")


def _of_first_replica(next_creator: Any, **options: Any) -> Any:
    none = tf.VariableAggregation.NONE
    if not options.get("trainable") and options.get("aggregation", none) == none:
        options["aggregation"] = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return next_creator(**options)
