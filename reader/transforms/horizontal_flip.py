"""Left becomes right in half of the pictures."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def horizontal_flip(image: Any, random: Any) -> Any:
    """The picture, mirrored where the random number is below one half.

    It stands before the resize, on uint8, where it moves a quarter of the bytes; mirroring and
    resizing commute.

    Args:
        image: [height, width, 3] uint8.
        random: [1] float32 in [0, 1).
    """
    return tf.cond(random[0] < 0.5, lambda: tf.reverse(image, axis=[1]), lambda: image)
