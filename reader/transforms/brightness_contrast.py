"""A little more or less light and contrast."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

MAX_CHANGE = 0.4  # customary strength for colour jitter, of full scale and of contrast 1


def brightness_contrast(image: Any, random: Any) -> Any:
    """The picture with contrast x [0.6, 1.4) around its mean and brightness x [0.6, 1.4).

    Args:
        image: [size, size, 3] float32 in [0, 255].
        random: [2] float32 in [0, 1): brightness, contrast.
    """
    factors = 1 + (2 * random - 1) * MAX_CHANGE
    brightness, contrast = tf.unstack(factors)
    mean = tf.reduce_mean(image)
    # One multiplication and one addition over the picture, then the clip, however many factors.
    scale = brightness * contrast
    shift = brightness * (1 - contrast) * mean
    return tf.clip_by_value(image * scale + shift, 0.0, 255.0)
