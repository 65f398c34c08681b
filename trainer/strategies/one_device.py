"""All variables and steps on one device, which is named: a test of strategies."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def create() -> Any:
    """A OneDeviceStrategy on the first GPU, or on the CPU where there is none."""
    gpus = tf.config.list_logical_devices("GPU")
    return tf.distribute.OneDeviceStrategy(gpus[0].name if gpus else "/cpu:0")
