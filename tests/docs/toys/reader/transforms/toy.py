"""Replaces every pixel by 7."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example


@dataclasses.dataclass(frozen=True)
class Toy:
    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 0

    def __call__(self, example: Example, random: Any) -> Example:
        return {**example, "image": tf.fill(tf.shape(example["image"]), 7.0)}
