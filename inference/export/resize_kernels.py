"""The filters of `--resize-filter` but "sharp", in TensorFlow operations, to the bit.

"area" is OpenCV's INTER_AREA. TensorFlow's own area kernel sums in another order and so rounds some
pixels differently. Here the sums are OpenCV's, tap by tap in float32: columns first, then rows, and
a division of whole numbers where both factors are whole.

"bilinear", "bicubic" and "lanczos" are Pillow's, which convolves with a kernel as wide as the
factor: weights of 22 bits along the columns, rounded to 8 bits, then along the rows, in int32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

# A tap that covers less of a source pixel is left out, as in OpenCV.
_LEAST_COVER = 1e-3

_BITS = 22


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
    places, shares = _area_taps(tf.shape(image)[axis], size)
    return sum_taps(image, axis, places, shares)


def _area_taps(source: Any, target: Any) -> tuple[Any, Any]:
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


class _Kernel(NamedTuple):
    """A kernel of Pillow: its radius in pixels of the result, and its value at a distance."""

    radius: int
    at: Callable[[Any], Any]


def _triangle(x: Any) -> Any:
    return tf.maximum(tf.zeros([], tf.float64), 1.0 - tf.abs(x))


def _cubic(x: Any) -> Any:
    a, x = -0.5, tf.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return tf.where(x < 1.0, near, tf.where(x < 2.0, far, tf.zeros_like(x)))


def _sinc(x: Any) -> Any:
    angle = x * math.pi
    return tf.where(x == 0.0, tf.ones_like(x), tf.math.divide_no_nan(tf.sin(angle), angle))


def _lanczos(x: Any) -> Any:
    inside = (x >= -3.0) & (x < 3.0)
    return tf.where(inside, _sinc(x) * _sinc(x / 3), tf.zeros_like(x))


def _convolve(kernel: _Kernel, image: Any, height: Any, width: Any) -> Any:
    """The image [rows, columns, 3] uint8 at a smaller size [height, width, 3] uint8."""
    narrow = _convolved_along(kernel, tf.cast(image, tf.int32), 1, width)
    return tf.cast(_convolved_along(kernel, narrow, 0, height), tf.uint8)


def _convolved_along(kernel: _Kernel, image: Any, axis: int, size: Any) -> Any:
    """[rows, columns, 3] int32 with one axis, 0 or 1, shrunk to a size."""
    places, weights = _kernel_taps(kernel, tf.shape(image)[axis], size)
    total = sum_taps(image, axis, places, weights, 1 << (_BITS - 1))
    return tf.clip_by_value(tf.math.floordiv(total, 1 << _BITS), 0, 255)


def _kernel_taps(kernel: _Kernel, source: Any, target: Any) -> tuple[Any, Any]:
    """Which source pixels make each target pixel: places and weights, [taps, target] int32."""
    scale = tf.cast(source, tf.float64) / tf.cast(target, tf.float64)
    support = kernel.radius * scale
    center = (tf.cast(tf.range(target), tf.float64) + 0.5) * scale
    first = tf.maximum(0, tf.cast(center - support + 0.5, tf.int32))
    last = tf.minimum(source, tf.cast(center + support + 0.5, tf.int32))
    tap = tf.range(2 * tf.cast(tf.math.ceil(support), tf.int32) + 1)[:, None]
    distance = (tf.cast(tap + first, tf.float64) - center + 0.5) * (1.0 / scale)
    values = tf.where(tap < last - first, kernel.at(distance), tf.zeros([], tf.float64))
    shares = values / tf.reduce_sum(values, axis=0) * (1 << _BITS)
    half = tf.constant(0.5, tf.float64)
    weights = tf.cast(shares + tf.where(shares < 0, -half, half), tf.int32)
    return tf.clip_by_value(tap + first, 0, source - 1), weights


CONVOLUTIONS = {
    "bilinear": functools.partial(_convolve, _Kernel(1, _triangle)),
    "bicubic": functools.partial(_convolve, _Kernel(2, _cubic)),
    "lanczos": functools.partial(_convolve, _Kernel(3, _lanczos)),
}
