"""A stream as NumPy arrays, for those who train with another library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from reader.stream import Stream


class NumpyBatches:
    """The batches of a stream, in the structure they have there, with arrays for tensors.

        for pictures, labels in stream.numpy():
            ...

    Pictures are [batch, height, width, 3] uint8 or float32, labels and token ids int64, weights
    and several labels float32. These arrays are TensorFlow's own memory, not copied, and must not
    be written to: NumPy refuses. Texts are a [batch] array of objects, bytes of UTF-8 each. Ragged
    token ids (pad="none") are a list of [length] arrays.

    Every iteration gives the same epochs again, as that of `stream.dataset` does.

    Args:
        stream: What is read.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __len__(self) -> int:
        return num_batches(self._stream)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._stream.dataset:
            yield tf.nest.map_structure(_to_numpy, batch)


def num_batches(stream: Stream) -> int:
    """The batches that a stream gives: of all epochs, less those before the state it began with.

    Raises:
        TypeError: The stream is endless: what `len` raises of things without a length.
    """
    if stream.info.epochs is None:
        raise TypeError("a stream has a length if it has a number of epochs, got epochs=None")
    return stream.steps_per_epoch * stream.info.epochs - stream.first_step


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
