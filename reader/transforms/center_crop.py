"""The largest square in the middle of a picture, for evaluation."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def center_crop(size: Any, random: Any) -> Any:
    """[4] int32: top, left, height and width of the square; its side is the shorter one.

    Where the margins are odd, the right or lower one has the pixel more.

    Args:
        size: [2] int32, height and width in pixels.
        random: [0], unused.
    """
    side = tf.reduce_min(size)
    return tf.concat([(size - side) // 2, [side, side]], axis=0)
