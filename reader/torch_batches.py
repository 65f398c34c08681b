"""A stream as PyTorch tensors. The only module that needs PyTorch, which is no dependency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from reader.batches import BatchSource, mapped
from shard_format import UsageError


class TorchBatches(IterableDataset):
    """The batches of a stream, in the structure they have there, with PyTorch tensors.

        for images, labels in stream.torch("cuda"):
            loss = cross_entropy(model(images.permute(0, 3, 1, 2).float() / 255), labels)

    Images are [batch, height, width, 3] uint8 or float32, labels and token ids int64, weights and
    several labels float32. Arrays are not copied on the CPU. Texts are a list of str. Ragged token
    ids (pad="none") are a list of [length] tensors.

    It is an IterableDataset of whole batches: iterate over it, or pass it to
    `DataLoader(..., batch_size=None)`, or to torchdata's `StatefulDataLoader`. Of n workers of a
    DataLoader each makes every nth batch, so the order is the same with any number of them.

    Every iteration gives the same epochs again, from the start of the stream.

    Args:
        stream: The stream.
        device: Where tensors are put, as torch.device has it; None is the CPU.

    Raises:
        UsageError: There is no such device.
    """

    def __init__(self, stream: BatchSource, device: Any = None) -> None:
        self._stream = stream
        self._device = _checked_device(device)
        self._resumed: int | None = None  # where the next iteration begins, and no other one
        self._place: int | None = None  # of the last iteration, in steps of the stream

    def __len__(self) -> int:
        return len(self._stream)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first = self._stream.first_step if self._resumed is None else self._resumed
        self._resumed, self._place = None, first
        if info is None:
            return self._tensors(self._stream.counted(self._stream.arrays(first), first), 1)
        worker = (info.id, info.num_workers)
        return self._tensors(self._stream.arrays(first, worker), info.num_workers)

    def _tensors(self, batches: Iterator[Any], workers: int) -> Iterator[Any]:
        """The batches of one of several workers, which take turns."""
        for batch in batches:
            self._place = (self._place or 0) + workers
            yield mapped(self._to_device, batch)

    def state_dict(self) -> dict[str, Any]:
        """The state of the stream behind the last batch, or that of where it will begin.

        In a worker of a DataLoader it is behind the last round of all workers.
        """
        place = self._place if self._resumed is None else self._resumed
        first = self._stream.first_step
        return self._stream.state_after(0 if place is None else place - first)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Has the next iteration begin at a state; those behind it begin where the stream does.

        Raises:
            UsageError: It is no state of this stream.
        """
        self._resumed = self._stream.step_of(state)

    def _to_device(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._to_device(one) for one in value]
        if value.dtype == object:
            return [text.decode() for text in value]
        if not value.flags.writeable:  # of TensorFlow; PyTorch code writes to its tensors
            value = value.copy()
        return torch.from_numpy(np.ascontiguousarray(value)).to(self._device)


def _checked_device(device: Any) -> Any:
    try:
        checked = torch.device("cpu" if device is None else device)
        torch.empty(0, device=checked)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise UsageError(
            f"PyTorch cannot use device {device!r} here, in stream.torch "
            f"({str(error).splitlines()[0]}). Pass another one, or None for the CPU."
        ) from error
    return checked
