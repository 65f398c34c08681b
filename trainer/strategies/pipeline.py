"""Consecutive layers on several devices, for a model that does not fit on one.

The devices are named by `trainer.pipeline`, which has the steps: TensorFlow's strategies put a
whole model on each device.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from foundation.errors import UsageError


def create() -> Any:
    """TensorFlow's default strategy, which puts nothing on a device by itself."""
    return tf.distribute.get_strategy()


def rows_of_devices(stages: int | None) -> list[list[str]]:
    """[replicas, stages] names of all GPUs, or of all logical CPU devices without a GPU.

    Args:
        stages: Number of stages; None for one on each device.

    Raises:
        UsageError: There are fewer devices than stages.
    """
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    stages = stages or len(names)
    if len(names) < stages:
        raise UsageError(
            f"--stages {stages} needs as many devices, and TensorFlow sees {len(names)} {kind}. "
            f"Pass --stages {len(names)}, or another --strategy."
        )
    return [names[row * stages : (row + 1) * stages] for row in range(len(names) // stages)]
