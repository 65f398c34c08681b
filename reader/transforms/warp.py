"""Rotated, scaled, sheared and shifted pictures: one affine map for all of them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def warp(image: Any, matrix: tuple[Any, ...], fill: float, interpolation: str = "BILINEAR") -> Any:
    """The picture of the same size whose pixel (x, y) is the picture's at matrix x (x, y, 1).

    Args:
        image: [height, width, 3] float32 or uint8.
        matrix: (a, b, c, d, e, f), numbers or scalars: x' = a x + b y + c, y' = d x + e y + f, in
            pixels from the middle of the picture, x to the right and y down.
        fill: The value of what lies outside of the picture.
        interpolation: "BILINEAR" or "NEAREST".
    """
    a, b, c, d, e, f = (tf.cast(value, tf.float32) for value in matrix)
    middle_y, middle_x = tf.unstack((tf.cast(tf.shape(image)[:2], tf.float32) - 1) / 2)
    # The operation counts from the middle of the first pixel.
    c += middle_x - a * middle_x - b * middle_y
    f += middle_y - d * middle_x - e * middle_y
    warped = tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=tf.stack([a, b, c, d, e, f, 0.0, 0.0])[None],
        output_shape=tf.shape(image)[:2],
        fill_value=float(fill),
        interpolation=interpolation,
        fill_mode="CONSTANT",
    )[0]
    warped.set_shape(image.shape)
    return warped
