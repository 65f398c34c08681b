"""The memory that a training needs of each device: estimated from its graph, and measured."""

from __future__ import annotations

import collections
import dataclasses
import gc
import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from trainer.chunked_loss import CHUNK_BYTES
from trainer.memory.liveness import peak_bytes, short_name
from trainer.models.heads import parts_for_training
from trainer.train_state import TrainState

# The logits of a chunk, their gradient, and either of them in the dtype of the model.
_CHUNKS = 3


@dataclasses.dataclass(frozen=True)
class Footprint:
    """The memory that a training is estimated to need of a device, in bytes.

    Attributes:
        device: Name of the device, such as "GPU:0".
        parameters: The weights, and other variables of the model.
        optimizer: The state of the optimizer.
        step: Activations and gradients, at the moment of a step that has the most of them.
    """

    device: str
    parameters: int
    optimizer: int
    step: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.optimizer + self.step


def estimated(state: TrainState, specs: Any) -> list[Footprint]:
    """The footprints of a training on one device, or in stages.

    Args:
        state: The training.
        specs: Shapes and dtypes of a batch, all dimensions known.
    """
    first = first_device()
    rows = [[first]]
    if state.division is not None:
        rows = [[short_name(name) for name in row] for row in state.division.stages.devices]
    parameters = _bytes_by_device(variable.value for variable in state.model.variables)
    optimizer = _bytes_by_device(variable.value for variable in state.optimizer.variables)
    step = collections.Counter(peak_bytes(state.loop.graph_of_gradients(specs), first))
    step[first] += sum(map(_bytes, tf.nest.flatten(specs)))
    if parts_for_training(state.model).head is not None:
        step.update({row[-1]: _CHUNKS * CHUNK_BYTES for row in rows})
    return [
        Footprint(name, parameters[name], optimizer[name], step[name])
        for row in rows
        for name in row
    ]


def measured(state: TrainState, specs: Any) -> dict[str, int]:
    """Device -> bytes that were in use in a step, at most; none where TensorFlow counts none.

    All logical devices of the CPU share their memory, which is "CPU".

    Args:
        state: A training.
        specs: Shapes and dtypes of a batch of all replicas, all dimensions known.

    Raises:
        TrainingError: A device has no memory left.
    """
    gc.collect()  # models that were looked at before
    ones = tf.nest.map_structure(lambda spec: tf.ones(spec.shape, spec.dtype), specs)
    batches = iter(state.loop.distribute(tf.data.Dataset.from_tensors(ones).repeat()))
    state.loop.train(batches, 1, lambda *_: None)  # also chooses kernels, with memory of its own
    gpus = tf.config.list_logical_devices("GPU")
    names = {short_name(gpu.name): gpu.name for gpu in gpus} or {"CPU": "CPU:0"}
    try:
        for name in names.values():
            tf.config.experimental.reset_memory_stats(name)
        state.loop.train(batches, 1, lambda *_: None)
        memory = tf.config.experimental.get_memory_info
        return {short: memory(name)["peak"] for short, name in names.items()}
    except ValueError:  # TensorFlow had started its devices before it was asked to count
        return {}


def first_device() -> str:
    """Short name of the device of a model under the default strategy."""
    devices = tf.config.list_logical_devices
    return short_name((devices("GPU") or devices("CPU"))[0].name)


def _bytes_by_device(values: Iterable[Any]) -> collections.Counter[str]:
    sums = collections.Counter[str]()
    for value in values:
        sums[short_name(value.device)] += _bytes(value)
    return sums


def _bytes(value: Any) -> int:
    return math.prod(value.shape) * int(value.dtype.size)
