"""`--resize-filter area` in TensorFlow operations, with the pixels that preprocessing gave.

That is OpenCV's INTER_AREA. TensorFlow's own area kernel sums in another order
and so rounds some pixels differently. Here the sums are OpenCV's, tap by tap in float32: columns
first, then rows, and a division of whole numbers where both factors are whole.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from trainer.export.taps import sum_taps

# A tap that covers less of a source pixel is left out, as in OpenCV.
_LEAST_COVER = 1e-3


def shrink_by_area(image: Any, height: Any, width: Any) -> Any:
    """The image at a smaller size.

    Args:
        image: [rows, columns, 3] uint8.
        height: Scalar int32, at least 1 and at most as many as there are rows.
        width: Scalar int32, at least 1 and at most as many as there are columns.

    Returns:
        [height, width, 3] uint8.
    """
    rows, columns = tf.shape(image)[0], tf.shape(image)[1]
    return tf.cond(
        (rows % height == 0) & (columns % width == 0),
        lambda: _by_whole_factors(image, height, width),
        lambda: _by_area(image, height, width),
    )


def _by_whole_factors(image: Any, height: Any, width: Any) -> Any:
    down, right = tf.shape(image)[0] // height, tf.shape(image)[1] // width
    blocks = tf.reshape(tf.cast(image, tf.int32), tf.stack([height, down, width, right, 3]))
    total = tf.reduce_sum(blocks, axis=[1, 3])
    # OpenCV has a kernel of its own for half the size, which rounds halves up.
    mean = tf.cast(total, tf.float32) * (1.0 / tf.cast(down * right, tf.float32))
    halved = (down == 2) & (right == 2)
    return _as_uint8(tf.where(halved, tf.cast((total + 2) // 4, tf.float32), mean))


def _by_area(image: Any, height: Any, width: Any) -> Any:
    narrow = _shrunk_along(tf.cast(image, tf.float32), 1, width)
    return _as_uint8(_shrunk_along(narrow, 0, height))


def _shrunk_along(image: Any, axis: int, size: Any) -> Any:
    """[rows, columns, 3] float32 with one axis, 0 or 1, shrunk to a size."""
    places, shares = _taps(tf.shape(image)[axis], size)
    return sum_taps(image, axis, places, shares)


def _taps(source: Any, target: Any) -> tuple[Any, Any]:
    """Which source pixels make each target pixel: places and shares, [taps, target] each.

    As computeResizeAreaTab of OpenCV: in float64, and rounded to float32 in the end.
    """
    zero = tf.zeros([], tf.float64)
    scale = tf.cast(source, tf.float64) / tf.cast(target, tf.float64)
    begin = tf.cast(tf.range(target), tf.float64) * scale
    end = begin + scale
    cell = tf.minimum(scale, tf.cast(source, tf.float64) - begin)
    last = tf.minimum(tf.cast(tf.floor(end), tf.int32), source - 1)
    first = tf.minimum(tf.cast(tf.math.ceil(begin), tf.int32), last)
    before = tf.cast(first, tf.float64) - begin
    behind = end - tf.cast(last, tf.float64)
    tap = tf.range(tf.cast(tf.math.ceil(scale), tf.int32) + 2)[:, None]
    place = first - 1 + tap
    share = tf.where((place >= first) & (place < last), 1.0 / cell, zero)
    share = tf.where((tap == 0) & (before > _LEAST_COVER), before / cell, share)
    at_end = (tap > 0) & (place == last) & (behind > _LEAST_COVER)
    share = tf.where(at_end, tf.minimum(tf.minimum(behind, 1.0), cell) / cell, share)
    return tf.clip_by_value(place, 0, source - 1), tf.cast(share, tf.float32)


def _as_uint8(values: Any) -> Any:
    """Rounded to the nearest, halves to even."""
    rounded = tf.cast(tf.clip_by_value(tf.round(values), 0.0, 255.0), tf.uint8)
    return tf.ensure_shape(rounded, [None, None, 3])
