"""A stream as NumPy arrays, for training with another library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from reader.damage import naming_damage
from reader.lazy_tensorflow import tf


class BatchSource(Protocol):
    """Batches in NumPy that a view of another library is made of; see `reader.Stream`."""

    @property
    def first_step(self) -> int:
        """Steps that were done before the first batch."""

    @property
    def element_dtype(self) -> str:
        """Element type of the inputs."""

    def __len__(self) -> int:
        """Batches that remain."""

    def __iter__(self) -> Iterator[Any]:
        """The batches, counted."""

    def counted(self, batches: Iterable[Any], first: int | None = None) -> Iterator[Any]:
        """Batches from a global step on, of which `state_dict` knows how many were taken."""

    def arrays(self, first: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        """The batches from a global step on."""

    def state_after(self, steps: int) -> dict[str, Any]:
        """The state after so many batches, or after the last one where there are fewer."""

    def step_of(self, state: Mapping[str, Any]) -> int:
        """The steps that were done at a state."""


class NumpyBatches:
    """The batches of a stream, in the structure they have there, with arrays for tensors.

        for images, labels in stream.numpy():
            ...

    Images are [batch, height, width, 3] uint8 or float32, labels and token ids int64, weights
    and several labels float32. Texts are a [batch] array of objects, bytes of UTF-8 each. Ragged
    token ids (pad="none") are a list of [length] arrays, as are the bytes of images
    with decode=False. The arrays are the caller's, but for those that TensorFlow made, which NumPy
    refuses to write to.

    Every iteration gives the same epochs again, from the start of the stream.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: BatchSource) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return len(self._stream)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._stream)


def mapped(function: Callable[..., Any], batch: Any, *others: Any) -> Any:
    """A batch with a function applied to each of its values.

    Args:
        function: Takes a value, and those in its place in the others.
        batch: The batch.
        others: Have the structure of the batch.
    """
    if isinstance(batch, tuple):
        return tuple(mapped(function, *values) for values in zip(batch, *others, strict=True))
    if isinstance(batch, dict):
        return {
            name: mapped(function, value, *(other[name] for other in others))
            for name, value in batch.items()
        }
    return function(batch, *others)


def read_batches(dataset: tf.data.Dataset) -> Iterator[Any]:
    """The batches of a data set.

    Raises:
        DamageError: A record is damaged; names file, byte offset and record id.
        ShardSetError: A shard is missing, or cannot be read.
    """
    batches = iter(dataset)
    while True:
        with naming_damage():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def to_arrays(batch: Any) -> Any:
    """A batch of TensorFlow as NumPy arrays, in its memory where that is possible."""
    return mapped(_to_array, batch)


def _to_array(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        values, splits = _to_array(value.values), value.row_splits.numpy()
        return [values[begin:end] for begin, end in itertools.pairwise(splits)]
    if value.dtype == tf.string:
        return value.numpy()
    return np.asarray(memoryview(value))
