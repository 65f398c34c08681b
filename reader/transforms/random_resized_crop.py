"""A rectangle of random area, shape and place: the crop of Inception and ResNet training."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

# Szegedy et al., Going Deeper with Convolutions (2015): 8 % to 100 % of the area, and a width to
# height ratio between 3:4 and 4:3.
MIN_AREA, MAX_AREA = 0.08, 1.0
MAX_LOG_RATIO = math.log(4 / 3)


def random_resized_crop(size: Any, random: Any) -> Any:
    """[4] int32: top, left, height and width of the crop; inside the picture, at least 1 x 1.

    The ratio is drawn first (uniform in its logarithm), then the area from what fits at this
    ratio. The usual way, drawing both until they fit, needs a loop and an unknown number of
    random numbers; tf.image.sample_distorted_bounding_box is one operation but draws bits that
    TensorFlow may change, and augmentation here must survive a change of version.

    Args:
        size: [2] int32, height and width in pixels.
        random: [4] float32 in [0, 1): ratio, area, top, left.
    """
    size = tf.cast(size, tf.float32)
    height, width = tf.unstack(size)
    ratio = tf.exp((2 * random[0] - 1) * MAX_LOG_RATIO)
    # Width x height of the crop is area x picture; the tallest and the widest that fit:
    most = tf.minimum(height * height * ratio, width * width / ratio)
    picture = height * width
    high = tf.minimum(MAX_AREA * picture, most)
    low = tf.minimum(MIN_AREA * picture, most)  # lower only on panoramas beyond 9:1
    area = low + random[1] * (high - low)
    crop = tf.sqrt(tf.stack([area / ratio, area * ratio]))
    crop = tf.clip_by_value(tf.round(crop), 1.0, size)
    corner = tf.floor(random[2:] * (size - crop + 1))
    # A random number just below 1 may round up to size - crop + 1 in float32.
    corner = tf.minimum(corner, size - crop)
    return tf.cast(tf.concat([corner, crop], axis=0), tf.int32)
