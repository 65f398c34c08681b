"""A stream as a tf.data.Dataset: its batches are handed over, and images not copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from reader.batches import mapped
from reader.graph.pipeline import finished
from reader.loader import Loader
from reader.record_types.base import ElementSpec


def dataset_of(batches: Callable[[], Iterator[Any]], loader: Loader, count: int) -> tf.data.Dataset:
    """A data set of batches in NumPy; it takes as many ahead as tf.data prefetches.

    Args:
        batches: Makes an iterator over batches of the loader, once for each iteration.
        loader: Describes them.
        count: Number of batches; -1 for no end.
    """

    def tensors() -> Iterator[Any]:
        for batch in batches():
            yield mapped(_tensor, batch)

    signature = mapped(lambda spec: _signature(spec, loader.static_size), loader.specs)
    dataset = tf.data.Dataset.from_generator(tensors, output_signature=signature)
    return finished(dataset, count, loader.options)


def _signature(spec: ElementSpec, size: int | None) -> Any:
    if spec.is_ragged:
        return tf.RaggedTensorSpec([size, None], spec.dtype, row_splits_dtype=tf.int64)
    return tf.TensorSpec([size, *spec.shape], spec.dtype)


def _tensor(value: Any) -> Any:
    """What TensorFlow takes: arrays as they are, in their memory where that is aligned."""
    if not isinstance(value, list):
        return value
    lengths = [len(row) for row in value]
    return tf.RaggedTensor.from_row_lengths(tf.concat(value, axis=0), tf.cast(lengths, tf.int64))
