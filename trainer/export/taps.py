"""The sum that all filters of `--resize-filter` are made of: weighted pixels along an axis."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def sum_taps(image: Any, axis: int, places: Any, weights: Any, begin: int = 0) -> Any:
    """Adds weighted pixels, one tap after the other: floats are added in this order.

    Args:
        image: [rows, columns, 3], int32 or float32.
        axis: 0 for rows, 1 for columns.
        places: [taps, size] int32, the source pixel of each tap of each pixel.
        weights: [taps, size] of the image's dtype, or [taps, 1] where all pixels have the same.
        begin: What the sum begins with.

    Returns:
        [rows, columns, 3] of the image's dtype, the axis with the new size.
    """
    column = [-1 if each == axis else 1 for each in range(3)]
    shape = tf.tensor_scatter_nd_update(tf.shape(image), [[axis]], [tf.shape(places)[1]])

    def add_tap(tap: Any, total: Any) -> Any:
        part = tf.gather(image, places[tap], axis=axis) * tf.reshape(weights[tap], column)
        return tap + 1, total + part

    _, total = tf.while_loop(
        lambda tap, _: tap < tf.shape(places)[0],
        add_tap,
        (0, tf.fill(shape, tf.constant(begin, image.dtype))),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None, 3])),
        parallel_iterations=1,
    )
    return total
