"""More or less difference between light and dark."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between
from reader.transforms.luminance import luminance


@dataclasses.dataclass(frozen=True)
class Contrast:
    """The distance of every value from the image's mean luminance, times one factor.

    Howard (2013, arXiv 1312.5402), section 2; see `Brightness`. The mean is that of Pillow's
    ImageEnhance.Contrast, which he used.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    max_change: float = 0.4

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_change", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same, clipped to [0, 255]."""
        image = example["image"]
        factor = 1 + (2 * random[0] - 1) * self.max_change
        # The mean luminance is the luminance of the mean colour: no image of it is made. Rows
        # first: both axes at once take twice the time.
        mean = tf.reduce_mean(tf.reduce_mean(image, axis=0), axis=0)
        shift = (1 - factor) * luminance(mean)
        # The bare operation, for tf.clip_by_value passes over the image twice.
        changed = tf.raw_ops.ClipByValue(
            t=image * factor + shift, clip_value_min=0.0, clip_value_max=255.0
        )
        return {**example, "image": changed}
