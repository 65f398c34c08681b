"""The whole picture: what "decode" is when nothing is cropped."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def whole(jpeg: Any, random: Any) -> Any:
    """[height, width, 3] uint8: every pixel.

    Args:
        jpeg: Scalar string.
        random: [0], unused.
    """
    return tf.image.decode_jpeg(jpeg, channels=3)
