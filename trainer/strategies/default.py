"""No distribution: the first GPU, or the CPU when there is none."""

from __future__ import annotations

from typing import Any


def create() -> Any:
    """TensorFlow's default strategy, so that the loop needs no branch for one device."""
    import tensorflow as tf

    return tf.distribute.get_strategy()
