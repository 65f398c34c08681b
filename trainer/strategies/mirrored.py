"""Every GPU of this machine holds a copy of the model; gradients are summed at every step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def create() -> Any:
    """A MirroredStrategy over all GPUs, or over all logical CPU devices where there is no GPU.

    The devices are named rather than left to TensorFlow, and the summation on CPU is pinned to one
    device: logical CPU devices are how this strategy is tested without a GPU, and there the
    ring and NCCL algorithms do not apply.
    """
    gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
    if gpus:
        return tf.distribute.MirroredStrategy(gpus)
    cpus = [device.name for device in tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(
        cpus, cross_device_ops=tf.distribute.ReductionToOneDevice()
    )
