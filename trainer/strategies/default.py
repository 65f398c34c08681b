"""No distribution: the first GPU, or the CPU when there is none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def create() -> Any:
    """TensorFlow's default strategy, so that the loop needs no branch for one device."""
    return tf.distribute.get_strategy()
