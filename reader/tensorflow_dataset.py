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
    source = _Source(batches)
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
    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self._batches = batches

    def tensors(self) -> Iterator[Any]:
        """Batches as TensorFlow takes them."""
        for batch in self._batches():
            yield mapped(_tensor, batch)


def _signature(spec: ElementSpec, size: int | None) -> Any:
    if spec.is_ragged and spec.dtype == "uint8":
        return tf.TensorSpec([size], tf.string)
    if spec.is_ragged:
        return tf.RaggedTensorSpec([size, None], spec.dtype, row_splits_dtype=tf.int64)
    return tf.TensorSpec([size, *spec.shape], spec.dtype)


def _tensor(value: Any) -> Any:
    """What TensorFlow takes: arrays as they are, in their memory where that is aligned."""
    if not isinstance(value, list):
        return value
    if not value or value[0].dtype == np.uint8:  # images that were not decoded
        strings = np.empty(len(value), object)
        strings[:] = [row.tobytes() for row in value]
        return strings
    lengths = [len(row) for row in value]
    return tf.RaggedTensor.from_row_lengths(tf.concat(value, axis=0), tf.cast(lengths, tf.int64))
