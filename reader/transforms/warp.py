"""Rotated, scaled, sheared and shifted images: one affine map for all of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def warp(image: Any, matrix: tuple[Any, ...], fill: float) -> Any:
    """The image of the same size whose pixel (x, y) is the image's at matrix x (x, y, 1).

    A pixel between four is interpolated between them, bilinearly.

    Args:
        image: [height, width, 3] float32, of a size that is known when the graph is made.
        matrix: (a, b, c, d, e, f), numbers or scalars: x' = a x + b y + c, y' = d x + e y + f, in
            pixels from the middle of the image, x to the right and y down.
        fill: The value outside of the image.
    """
    return _interpolated(image, _stacked(matrix), tf.constant(fill, tf.float32))


def warp_nearest(image: Any, matrix: tuple[Any, ...], fill: int) -> Any:
    """Like `warp`, with the value of the nearest pixel, of images of any type."""
    return _nearest(image, _stacked(matrix), tf.constant(fill, image.dtype))


def _stacked(matrix: tuple[Any, ...]) -> Any:
    return tf.stack([tf.cast(value, tf.float32) for value in matrix])


# Compiled: on one core 0.7 ms for 224 x 224 pixels, and 0.3 ms for the nearest, where
# tf.raw_ops.ImageProjectiveTransformV3, which gives the same, takes 1.6 ms and 0.9 ms. It works the
# coordinates out again for each channel.
@tf.function(jit_compile=True)
def _interpolated(image: Any, matrix: Any, fill: Any) -> Any:
    x, y = _places(image.shape, matrix)
    left, top = tf.floor(x), tf.floor(y)
    right_share, lower_share = (x - left)[..., None], (y - top)[..., None]
    rows = [
        _looked_up(image, left, row, fill) * (1 - right_share)
        + _looked_up(image, left + 1, row, fill) * right_share
        for row in (top, top + 1)
    ]
    return rows[0] * (1 - lower_share) + rows[1] * lower_share


@tf.function(jit_compile=True)
def _nearest(image: Any, matrix: Any, fill: Any) -> Any:
    x, y = _places(image.shape, matrix)
    return _looked_up(image, tf.round(x), tf.round(y), fill)


def _places(shape: Any, matrix: Any) -> tuple[Any, Any]:
    """Column and row, [height, width] float32 each, that every pixel comes from."""
    a, b, c, d, e, f = tf.unstack(matrix)
    middle_y, middle_x = (shape[0] - 1) / 2, (shape[1] - 1) / 2
    y = tf.range(shape[0], dtype=tf.float32)[:, None] - middle_y
    x = tf.range(shape[1], dtype=tf.float32)[None, :] - middle_x
    return a * x + b * y + c + middle_x, d * x + e * y + f + middle_y


def _looked_up(image: Any, x: Any, y: Any, fill: Any) -> Any:
    """[height, width, 3]: the pixels at these columns and rows; the filling where there is none."""
    height, width = image.shape[:2]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x = tf.cast(tf.clip_by_value(x, 0, width - 1), tf.int32)
    y = tf.cast(tf.clip_by_value(y, 0, height - 1), tf.int32)
    pixels = tf.gather(tf.reshape(image, [-1, 3]), y * width + x)
    return tf.where(inside[..., None], pixels, fill)
