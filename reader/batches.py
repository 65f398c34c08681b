"""A stream as NumPy arrays, for training with another library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from reader.damage import naming_damage


class NumpyBatches:
    """The batches of a stream, in the structure they have there, with arrays for tensors.

        for images, labels in stream.numpy():
            ...

    Images are [batch, height, width, 3] uint8 or float32, labels and token ids int64, weights
    and several labels float32. These arrays are TensorFlow's own memory, not copied, and must not
    be written to: NumPy refuses. Texts are a [batch] array of objects, bytes of UTF-8 each. Ragged
    token ids (pad="none") are a list of [length] arrays.

    Every iteration gives the same epochs again, as that of `stream.dataset` does.

    Args:
        dataset: The batches.
        num_batches: How many there are; None for no end.
    """

    def __init__(self, dataset: tf.data.Dataset, num_batches: int | None) -> None:
        self._dataset, self._num_batches = dataset, num_batches

    def __len__(self) -> int:
        return known_length(self._num_batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in read_batches(self._dataset):
            yield tf.nest.map_structure(_to_numpy, batch)


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


def known_length(num_batches: int | None) -> int:
    """The length of a finite stream.

    Raises:
        TypeError: The stream is endless: what `len` raises of things without a length.
    """
    if num_batches is None:
        raise TypeError("an endless stream has no length: it was loaded with epochs=None")
    return num_batches


def ragged_rows(ragged: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """A tf.RaggedTensor [batch, ragged] as a list of [length], views of what `convert` makes."""
    values, splits = convert(ragged.flat_values), ragged.row_splits.numpy()
    return [values[begin:end] for begin, end in itertools.pairwise(splits)]


def _to_numpy(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return ragged_rows(value, _to_numpy)
    if value.dtype == tf.string:
        return value.numpy()
    return np.asarray(memoryview(value))
