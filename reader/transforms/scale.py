"""Nearer or further away by a random factor."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between, require_order
from reader.transforms.warp import warp


@dataclasses.dataclass(frozen=True)
class Scale:
    """The image made larger or smaller around its middle, within its frame.

    Scale jitter, as in Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale
    Image Recognition" (2015, arXiv 1409.1556), section 3.1. A random resized crop only
    enlarges; this is for images that should become smaller too.

    Attributes:
        min_factor: Below 1 the image becomes smaller, and its margin is filled; in [0.1, 10].
        max_factor: Above 1 it becomes larger, and its margin is cut off; in [min_factor, 10]. The
            logarithm of the factor is uniform.
        fill: Of what was outside, in [0, 255].
    """

    min_factor: float = 0.8
    max_factor: float = 1.25
    fill: float = 128.0

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "min_factor", 0.1, 10)
        require_between(self, "max_factor", 0.1, 10)
        require_order(self, "min_factor", "max_factor")
        require_between(self, "fill", 0, 255)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same, bilinear."""
        low, high = math.log(self.min_factor), math.log(self.max_factor)
        step = tf.exp(-(low + random[0] * (high - low)))  # from pixel to pixel in the old image
        matrix = (step, 0.0, 0.0, 0.0, step, 0.0)
        return {**example, "image": warp(example["image"], matrix, self.fill)}
