"""The largest square in the middle of a picture, for evaluation."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def center_crop(jpeg: Any, random: Any) -> Any:
    """[side, side, 3] uint8, side being the shorter one; what lies outside is not decoded.

    Where the margins are odd, the right or lower one has the pixel more.

    Args:
        jpeg: Scalar string.
        random: [0], unused.
    """
    size = tf.io.extract_jpeg_shape(jpeg)[:2]
    side = tf.reduce_min(size)
    corner = (size - side) // 2
    return tf.image.decode_and_crop_jpeg(
        jpeg, tf.concat([corner, [side, side]], axis=0), channels=3
    )
