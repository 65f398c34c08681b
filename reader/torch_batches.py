"""A stream as PyTorch tensors. The only module that needs PyTorch, which is no dependency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import tensorflow as tf
import torch
from torch.utils.data import IterableDataset, get_worker_info

from reader.batches import known_length, ragged_rows, read_batches
from shard_format import UsageError

_IMAGES_RANK = 4  # [batch, height, width, 3]


class TorchBatches(IterableDataset):
    """The batches of a stream, in the structure they have there, with PyTorch tensors.

        for images, labels in stream.torch("cuda"):
            loss = cross_entropy(model(images.permute(0, 3, 1, 2).float() / 255), labels)

    Images are [batch, height, width, 3] uint8 or float32, labels and token ids int64, weights and
    several labels float32; all may be written to. Images are not copied on the CPU. Texts are a
    list of str. Ragged token ids (pad="none") are a list of [length] tensors.

    It is an IterableDataset of whole batches: iterate over it, or pass it to
    `DataLoader(..., batch_size=None)`. Workers of a DataLoader are refused, for each of them would
    read everything, and TensorFlow, whose threads do the work of workers, does not survive a fork.

    Every iteration gives the same epochs again, as that of `stream.dataset` does.

    Args:
        dataset: The batches.
        num_batches: How many there are; None for no end.
        device: Where tensors are put, as torch.device has it; None is the CPU.

    Raises:
        UsageError: There is no such device. While it is read: a DataLoader has workers.
    """

    def __init__(
        self, dataset: tf.data.Dataset, num_batches: int | None, device: Any = None
    ) -> None:
        self._dataset, self._num_batches = dataset, num_batches
        self._device = _checked_device(device)

    def __len__(self) -> int:
        return known_length(self._num_batches)

    def __iter__(self) -> Iterator[Any]:
        workers = get_worker_info()
        if workers is not None:
            _refuse_workers(f"A DataLoader with num_workers={workers.num_workers}")
        for batch in read_batches(self._dataset):
            yield tf.nest.map_structure(self._to_device, batch)

    def __reduce__(self) -> NoReturn:
        _refuse_workers("Another process")

    def _to_device(self, value: Any) -> Any:
        if isinstance(value, tf.RaggedTensor):
            return ragged_rows(value, self._to_device)
        if value.dtype == tf.string:
            return [text.decode() for text in value.numpy()]
        return _to_torch(value).to(self._device)


def _to_torch(value: Any) -> Any:
    # PyTorch code writes to its tensors. A batch of images has memory of its own, which tf.data
    # allocates to put them together; other tensors may be constants, which TensorFlow computes once
    # and hands out with every batch.
    if value.shape.rank == _IMAGES_RANK and value.shape.num_elements():  # all may be damaged
        return torch.from_dlpack(tf.experimental.dlpack.to_dlpack(value))
    return torch.from_numpy(value.numpy())  # numpy() copies


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


def _refuse_workers(who: str) -> NoReturn:
    raise UsageError(
        f"{who} cannot read stream.torch(): only the process that created it can, by threads of "
        "TensorFlow. Pass num_workers=0; to load in several processes, pass reader.random_access "
        "to the DataLoader."
    )
