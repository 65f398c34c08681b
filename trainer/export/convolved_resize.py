"""`--resize-filter bilinear, bicubic, lanczos` in TensorFlow operations, with Pillow's pixels.

Pillow convolves with a kernel that is as wide as the factor: weights of 22 bits along the columns,
rounded to 8 bits, then along the rows. Here it is the same, in int32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from trainer.export.taps import sum_taps

_BITS = 22


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


def _shrink(kernel: _Kernel, image: Any, height: Any, width: Any) -> Any:
    """The image [rows, columns, 3] uint8 at a smaller size [height, width, 3] uint8."""
    narrow = _along(kernel, tf.cast(image, tf.int32), 1, width)
    return tf.cast(_along(kernel, narrow, 0, height), tf.uint8)


def _along(kernel: _Kernel, image: Any, axis: int, size: Any) -> Any:
    """[rows, columns, 3] int32 with one axis, 0 or 1, shrunk to a size."""
    places, weights = _taps(kernel, tf.shape(image)[axis], size)
    total = sum_taps(image, axis, places, weights, 1 << (_BITS - 1))
    return tf.clip_by_value(tf.math.floordiv(total, 1 << _BITS), 0, 255)


def _taps(kernel: _Kernel, source: Any, target: Any) -> tuple[Any, Any]:
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


SHRINK = {
    "bilinear": functools.partial(_shrink, _Kernel(1, _triangle)),
    "bicubic": functools.partial(_shrink, _Kernel(2, _cubic)),
    "lanczos": functools.partial(_shrink, _Kernel(3, _lanczos)),
}
