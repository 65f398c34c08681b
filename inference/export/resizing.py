"""Resizing in TensorFlow operations, by --resize-filter, with the pixels of preprocessing.

The filter "sharp" is OpenCV's Gaussian and its exact interpolation, in fixed point: weights of 8
bits along the columns, then along the rows, and one rounding in the end, in int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from inference.export.resize_kernels import CONVOLUTIONS, shrink_by_area, sum_taps

# As in beam_jobs/images/resize.py.
_SPREAD, _OWN_SPREAD, _LEAST = 0.225, 0.16, 0.04
_AROUND = 0.6
_HALVE_FROM = 5


def _shrink_sharply(image: Any, height: Any, width: Any) -> Any:
    """The image at a smaller size.

    Args:
        image: [rows, columns, 3] uint8.
        height: Scalar int32, at least 1 and at most as many as there are rows.
        width: Scalar int32, at least 1 and at most as many as there are columns.

    Returns:
        [height, width, 3] uint8.
    """
    image = _halved(tf.cast(image, tf.int32), height, width)
    down, across = _factor(image, 0, height), _factor(image, 1, width)
    image = _gaussian(image, *_smoothing(across), *_smoothing(down))
    image = _interpolate(image, height, width)
    taps = [tf.where(factor > 1, 3, 1) for factor in (across, down)]
    deviation = tf.constant(_AROUND, tf.float64)
    around = _gaussian(image, taps[0], deviation, taps[1], deviation)
    return tf.cast(tf.clip_by_value(2 * image - around, 0, 255), tf.uint8)


def _interpolate(image: Any, height: Any, width: Any) -> Any:
    """OpenCV's INTER_LINEAR_EXACT: between neighbors, in fixed point.

    Args:
        image: [rows, columns, 3] int32 in [0, 255].
        height: Scalar int32, at least 1.
        width: Scalar int32, at least 1.

    Returns:
        [height, width, 3] int32 in [0, 255].
    """
    return _rounded(_between(_between(image, 1, width), 0, height))


def _halved(image: Any, height: Any, width: Any) -> Any:
    def is_large(image: Any) -> Any:
        rows, columns = tf.shape(image)[0], tf.shape(image)[1]
        return (rows >= _HALVE_FROM * height) & (columns >= _HALVE_FROM * width)

    def halve(image: Any) -> tuple[Any]:
        rows, columns = tf.shape(image)[0] // 2, tf.shape(image)[1] // 2
        whole = image[: 2 * rows, : 2 * columns]
        blocks = tf.reshape(whole, tf.stack([rows, 2, columns, 2, 3]))
        return ((tf.reduce_sum(blocks, axis=[1, 3]) + 2) // 4,)

    (halved,) = tf.while_loop(
        is_large, halve, (image,), shape_invariants=(tf.TensorShape([None, None, 3]),)
    )
    return halved


def _factor(image: Any, axis: int, size: Any) -> Any:
    return tf.cast(tf.shape(image)[axis], tf.float64) / tf.cast(size, tf.float64)


def _smoothing(factor: Any) -> tuple[Any, Any]:
    """Taps and standard deviation of the Gaussian along a side that shrinks by a factor."""
    variance = tf.maximum(tf.constant(_LEAST, tf.float64), _SPREAD * factor * factor - _OWN_SPREAD)
    deviation = tf.sqrt(variance)
    taps = 1 + 2 * tf.cast(tf.math.ceil(2.0 * deviation - 0.2), tf.int32)
    return tf.where(variance > _LEAST, taps, 1), deviation


def _gaussian(image: Any, across: Any, spread_across: Any, down: Any, spread_down: Any) -> Any:
    """[rows, columns, 3] int32 smoothed; taps and standard deviation of both sides."""
    narrow = _smoothed_along(image, 1, _weights(across, spread_across))
    return _rounded(_smoothed_along(narrow, 0, _weights(down, spread_down)))


def _weights(taps: Any, deviation: Any) -> Any:
    """[taps] int32 with the sum 256: rounded, and each error is passed on to the next."""
    half = taps // 2
    places = tf.cast(tf.range(taps) - half, tf.float64)
    shares = tf.exp(-(places**2) / (2 * deviation**2))
    sums = tf.round(tf.cumsum(shares / tf.reduce_sum(shares))[:half] * 256)
    side = tf.cast(sums - tf.concat([tf.zeros([1], tf.float64), sums], 0)[:half], tf.int32)
    middle = 256 - 2 * tf.reduce_sum(side)
    return tf.concat([side, middle[None], side[::-1]], 0)


def _smoothed_along(image: Any, axis: int, weights: Any) -> Any:
    size = tf.shape(image)[axis]
    period = tf.maximum(1, 2 * (size - 1))
    taps = tf.range(tf.shape(weights)[0])[:, None] - tf.shape(weights)[0] // 2
    place = tf.math.floormod(tf.range(size) + taps, period)
    inside = tf.where(place < size, place, period - place)  # reflected at the outer pixels
    return sum_taps(image, axis, inside, weights[:, None])


def _between(image: Any, axis: int, size: Any) -> Any:
    """Interpolates along one axis, 0 or 1; returns the values times 256."""
    last = tf.shape(image)[axis] - 1
    scale = tf.cast(last + 1, tf.float64) / tf.cast(size, tf.float64)
    at = scale * (tf.cast(tf.range(size), tf.float64) + 0.5) - 0.5
    before = tf.floor(at)
    share = tf.cast(tf.round((at - before) * 256), tf.int32)
    left = tf.cast(before, tf.int32)
    share = tf.where((left < 0) | (left >= last), 0, share)
    left = tf.clip_by_value(left, 0, last)
    places = tf.stack([left, tf.minimum(left + 1, last)])
    return sum_taps(image, axis, places, tf.stack([256 - share, share]))


def _rounded(image: Any) -> Any:
    return (image + (1 << 15)) // (1 << 16)


# An image [rows, columns, 3] uint8, and the height and width to shrink it to.
FILTERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "area": shrink_by_area,
    "sharp": _shrink_sharply,
    **CONVOLUTIONS,
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
    return tf.cast(_interpolate(tf.cast(image, tf.int32), height, width), tf.uint8)
