"""Resizing in TensorFlow operations, by --resize-filter, with the pixels of preprocessing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.export import convolved_resize
from trainer.export.area_resize import shrink_by_area
from trainer.export.sharp_resize import interpolate, shrink_sharply

# An image [rows, columns, 3] uint8, and the height and width to shrink it to.
FILTERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "area": shrink_by_area,
    "sharp": shrink_sharply,
    **convolved_resize.SHRINK,
}


def resize(image: Any, height: Any, width: Any, resize_filter: str) -> Any:
    """The image at another size: shrunk by a filter, else enlarged between neighbors.

    Args:
        image: [rows, columns, 3] uint8.
        height: Scalar int32, at least 1.
        width: Scalar int32, at least 1.
        resize_filter: A name in FILTERS.

    Returns:
        [height, width, 3] uint8.
    """
    rows, columns = tf.shape(image)[0], tf.shape(image)[1]
    done = tf.case(
        [
            ((height == rows) & (width == columns), lambda: image),
            (
                (height <= rows) & (width <= columns),
                lambda: FILTERS[resize_filter](image, height, width),
            ),
        ],
        default=lambda: _enlarged(image, height, width),
    )
    return tf.ensure_shape(done, [None, None, 3])


def _enlarged(image: Any, height: Any, width: Any) -> Any:
    return tf.cast(interpolate(tf.cast(image, tf.int32), height, width), tf.uint8)
