"""More or less colour."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between


@dataclasses.dataclass(frozen=True)
class Saturation:
    """The saturation of every pixel times one factor, in HSV: hue and value stay.

    Howard (2013, arXiv 1312.5402), section 2; see `Brightness`. He fades to grey with Pillow,
    which changes the value of pure colours too; RandAugment here does as he did.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    max_change: float = 0.4

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_change", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        factor = 1 + (2 * random[0] - 1) * self.max_change
        # The bare operation, for tf.image.adjust_saturation divides by 255 and multiplies again.
        image = tf.raw_ops.AdjustSaturation(images=example["image"], scale=factor)
        return {**example, "image": image}
