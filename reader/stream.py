"""What `load` and `mix` give: batches, what they are of, and where the stream is."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from reader.caching.copying import Copies
from reader.info import StreamInfo
from reader.numpy_batches import NumpyBatches
from reader.options import ReadOptions
from reader.state import Position, make_state
from shard_format import UsageError

if TYPE_CHECKING:
    from reader.torch_batches import TorchBatches


@dataclasses.dataclass(frozen=True)
class Stream:
    """A split as batches.

    Attributes:
        dataset: Of (inputs [batch, ...], targets [batch, ...]), or of inputs alone where the set
            has no labels; of packed sequences (inputs, targets, weights). See `load`.
        steps_per_epoch: Batches in one pass over the split.
        info: What is read, and how.
        order: What a state of it must agree with.
        start: Where the data set begins: after so many epochs and steps.
        copies: What is being copied to local disk while it is read where it lies, a part for each
            set of a mixture: see `copied_bytes`, `total_bytes`, `wait()` and `stop()` of it.
        options: How it was opened, for those who open it again to measure it; None of a mixture.
        directory: What it was opened from, for the same: of a set at a URL that URL, where
            `info.directory` holds copies of its small files. None of a mixture.
    """

    dataset: tf.data.Dataset
    steps_per_epoch: int
    info: StreamInfo
    order: Mapping[str, Any]
    start: Position
    copies: tuple[Copies, ...]
    options: ReadOptions | None = dataclasses.field(default=None, repr=False, kw_only=True)
    directory: str | os.PathLike[str] | None = dataclasses.field(
        default=None, repr=False, kw_only=True
    )

    @property
    def first_step(self) -> int:
        """Steps that were done before the data set begins; 0 where it was loaded without state."""
        return self.start.epoch * self.steps_per_epoch + self.start.step

    def state(self, steps_done: int) -> dict[str, Any]:
        """Where the stream is after so many steps, to be stored beside the weights.

        It is a dictionary of numbers and strings of less than 1 kB, the same for all workers, and
        depends on no buffer: what was prefetched and not trained on is read again.

        Args:
            steps_done: Batches that were taken from this data set, counted from its own begin:
                not those of the runs before it (`first_step`).

        Raises:
            UsageError: There are fewer.
        """
        step = _counted(steps_done, self.first_step) + self.first_step
        epochs = self.info.epochs
        if epochs is not None and step > epochs * self.steps_per_epoch:
            raise UsageError(
                f"steps_done must be at most the steps of the stream "
                f"({epochs * self.steps_per_epoch - self.first_step}), got {steps_done} in "
                "Stream.state. Count the batches that were taken from this data set."
            )
        place = Position(*divmod(step, self.steps_per_epoch))
        return make_state(place, self.order)

    def numpy(self) -> NumpyBatches:
        """The batches as NumPy arrays, to be iterated over any number of times."""
        return NumpyBatches(self)

    def torch(self, device: Any = None) -> TorchBatches:
        """The batches as PyTorch tensors: a torch.utils.data.IterableDataset.

        Args:
            device: Where tensors are put, such as "cuda"; None is the CPU.

        Raises:
            UsageError: PyTorch is not installed, or has no such device.
        """
        try:
            from reader.torch_batches import TorchBatches
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise UsageError(
                "stream.torch() needs PyTorch, got no module named 'torch'. Install it with 'pip "
                "install torch', or take stream.numpy()."
            ) from error
        return TorchBatches(self, device)


class ServedStream(Stream):
    """Batches from a service, which come in the order of their arrival within an epoch."""

    def state(self, steps_done: int) -> dict[str, Any]:
        """See `Stream.state`; here it can be told between two epochs only.

        Raises:
            UsageError: An epoch has begun and is not done, or has fewer steps.
        """
        state = super().state(steps_done)
        if state["step"]:
            raise UsageError(
                "a stream of a service has a state where an epoch ends, since within one the order "
                f"of batches depends on the workers, got steps_done={steps_done} after "
                f"{self.first_step} steps, with {self.steps_per_epoch} in an epoch, in "
                "Stream.state. Take it after whole epochs, or load without service."
            )
        return state


def _counted(steps_done: Any, first_step: int) -> int:
    """Steps as a Python number, from any whole number such as an optimizer's."""
    try:
        steps = steps_done.__index__()
    except (AttributeError, TypeError):
        steps = -1
    if isinstance(steps_done, bool) or steps < 0:
        raise UsageError(
            f"steps_done must be a whole number of at least 0, got {steps_done!r} in Stream.state. "
            f"Count the batches that were taken from this data set; {first_step} were done before."
        )
    return int(steps)
