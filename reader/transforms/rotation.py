"""A turn by a random angle."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between
from reader.transforms.warp import warp


@dataclasses.dataclass(frozen=True)
class Rotation:
    """The image turned around its middle; corners that come from outside are filled.

    Simard et al., "Best Practices for Convolutional Neural Networks Applied to Visual Document
    Analysis" (2003), section 2, expand a training set by affine maps. The range is a choice: up
    to 15 degrees a photograph still looks like one.

    Attributes:
        max_degrees: The angle is uniform in [-max_degrees, max_degrees), in [0, 180]. Positive
            ones turn counter-clockwise.
        fill: Of what was outside, in [0, 255]; 128 is the grey of the AutoAugment family.
    """

    max_degrees: float = 15.0
    fill: float = 128.0

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_degrees", 0, 180)
        require_between(self, "fill", 0, 255)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same, bilinear."""
        angle = (2 * random[0] - 1) * math.radians(self.max_degrees)
        cos, sin = tf.cos(angle), tf.sin(angle)
        # y points down: a turn to the left looks up its pixels further to the right.
        matrix = (cos, -sin, 0.0, sin, cos, 0.0)
        return {**example, "image": warp(example["image"], matrix, self.fill)}
