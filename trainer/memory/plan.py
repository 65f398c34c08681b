"""A training that is looked at before it begins."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import tensorflow as tf

from trainer.data import Data, require_batch
from trainer.memory.footprint import Footprint
from trainer.options import Settings
from trainer.train_state import TrainState, make_train_state

NUMBERS = (2, 4, 8)  # of parts, and of devices, that are looked at


@dataclasses.dataclass(frozen=True)
class Way:
    """Options that need less memory of a device.

    Attributes:
        flag: The options, with N for the number.
        number: Number of parts, or of devices.
        bytes: Memory of the device that needs the most.
    """

    flag: str
    number: int
    bytes: int

    @property
    def text(self) -> str:
        """The options with their number."""
        return self.flag.replace("N", str(self.number))


class MemoryPlan(abc.ABC):
    """What a training with some options, and with others in their place, needs of a device.

    Args:
        options: The options.
        policy: The Keras dtype policy.
        data: What the model is fed, and what it predicts.

    Attributes:
        num_parameters: Weights of the model, trained or not.
        footprints: Memory of each device under these options.
    """

    num_parameters: int
    footprints: list[Footprint]

    def __init__(self, options: Settings, policy: str, data: Data) -> None:
        self._options = options
        self._policy = policy
        self._data = data
        self._stream = data.open_training(None)
        require_batch(self._stream.info.records, options)

    @abc.abstractmethod
    def ways(self) -> list[Way]:
        """What other options would need."""

    def state(self, **changes: Any) -> TrainState:
        """The model and its optimizer, under options with some changes."""
        options = dataclasses.replace(self._options, **changes)
        return make_train_state(options, self._policy, self._stream.steps_per_epoch, self._data)

    def specs(self, divisor: int = 1) -> Any:
        """Shapes and dtypes of a batch, or of a part of it, with the greatest length."""

        def known(spec: Any) -> Any:
            lengths = [side or self._options.max_tokens for side in spec.shape[1:]]
            return tf.TensorSpec([self._options.batch_size // divisor or 1, *lengths], spec.dtype)

        return tf.nest.map_structure(known, self._stream.dataset.element_spec)
