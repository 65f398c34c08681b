"""A stream as a tf.data.Dataset: its batches are handed over, and images not copied."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from reader.batches import mapped
from reader.graph.pipeline import finished
from reader.loader import BatchLoader
from reader.record_types.base import ElementSpec


def dataset_of(
    batches: Callable[[], Iterator[Any]], loader: BatchLoader, count: int
) -> tf.data.Dataset:
    """A data set of batches in NumPy; it takes as many ahead as tf.data prefetches.

    Args:
        batches: Makes an iterator over batches of the loader, once for each iteration.
        loader: Describes them.
        count: Number of batches; -1 for no end.
    """
    source = _Source(batches, loader.specs)
    signature = mapped(lambda spec: _signature(spec, loader.static_size), loader.specs)
    dataset = tf.data.Dataset.from_generator(
        _weakly(weakref.WeakMethod(source.tensors)), output_signature=signature
    )
    # TensorFlow never forgets a function in Python, and what it holds: open files, leases on
    # copies. Data sets made of this one, and their iterators, hold this one.
    dataset.source_of_batches = source
    return finished(dataset, count, loader.options)


def _weakly(
    method: Callable[[], Callable[[], Iterator[Any]] | None],
) -> Callable[[], Iterator[Any]]:
    def call() -> Iterator[Any]:
        bound = method()
        if bound is None:
            raise ReferenceError("the data set of a stream is gone; keep stream.dataset")
        return bound()

    return call


class _Source:
    def __init__(self, batches: Callable[[], Iterator[Any]], specs: Any) -> None:
        self._batches, self._specs = batches, specs

    def tensors(self) -> Iterator[Any]:
        """Batches as TensorFlow takes them."""
        for batch in self._batches():
            yield mapped(_tensor, batch, self._specs)


def _signature(spec: ElementSpec, size: int | None) -> Any:
    if spec.is_encoded:
        return tf.TensorSpec([size], tf.string)
    shape, levels = [size, *spec.shape], _ragged_levels(spec)
    if levels:
        shape[1 : levels + 1] = [None] * levels
        return tf.RaggedTensorSpec(shape, spec.dtype, levels, row_splits_dtype=tf.int64)
    return tf.TensorSpec(shape, spec.dtype)


def _ragged_levels(spec: ElementSpec) -> int:
    """Dimensions behind that of the batch up to the last one that varies; 0 of dense values."""
    if not spec.lists:
        return 0
    return max(place for place, size in enumerate(spec.shape, 1) if size is None)


def _tensor(value: Any, spec: ElementSpec) -> Any:
    """What TensorFlow takes: arrays as they are, in their memory where that is aligned."""
    if spec.is_encoded:
        strings = np.empty(len(value), object)
        strings[:] = [row.tobytes() for row in value]
        return strings
    levels = _ragged_levels(spec)
    if not levels:
        return value
    lengths = []
    if spec.lists > 1 and value and isinstance(value[0], list):
        lengths = [np.array([len(rows) for rows in value], np.int64)]
        value = [row for rows in value for row in rows]
        levels -= 1
    lengths += [_lengths(value, level) for level in range(levels)]
    inner = [size or 0 for size in spec.shape[levels + spec.lists - 1 :]]
    rows = [np.reshape(row, (-1, *row.shape[levels:])) for row in value]
    empty = np.zeros((0, *inner), object if spec.dtype == "string" else spec.dtype)
    flat = tf.constant(np.concatenate([empty, *rows]), spec.dtype)
    return tf.RaggedTensor.from_nested_row_lengths(flat, lengths)


def _lengths(arrays: list[Any], level: int) -> Any:
    """[rows of the level above] int64: the lengths along a dimension, of each row before it."""
    sizes = [np.full(int(np.prod(one.shape[:level])), one.shape[level], np.int64) for one in arrays]
    return np.concatenate([np.zeros(0, np.int64), *sizes])
