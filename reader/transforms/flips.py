"""Mirrored images."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import cv2

from reader.lazy_tensorflow import tf
from reader.transforms.base import Example, require_between


@dataclasses.dataclass(frozen=True)
class _Flip:
    probability: float = 0.5

    stage: ClassVar[str] = "decoded"
    num_random: ClassVar[int] = 1
    axis: ClassVar[int]

    def __post_init__(self) -> None:
        require_between(self, "probability", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [height, width, 3] uint8} -> the same."""
        image = example["image"]
        flipped = tf.cond(
            random[0] < self.probability, lambda: tf.reverse(image, [self.axis]), lambda: image
        )
        return {**example, "image": flipped}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [height, width, 3] uint8} -> the same."""
        if random[0] >= self.probability:
            return example
        # 1 is about the vertical axis for OpenCV, and 0 about the horizontal one.
        return {**example, "image": cv2.flip(example["image"], self.axis)}

    def places(self, random: Any, size: tuple[int, int]) -> tuple[float, ...]:
        """(a, b, c, d, e, f): a place (x, y) goes to (a x + b y + c, d x + e y + f)."""
        if random[0] >= self.probability:
            return (1, 0, 0, 0, 1, 0)
        height, width = size
        return (-1, 0, width, 0, 1, 0) if self.axis else (1, 0, 0, 0, -1, height)


@dataclasses.dataclass(frozen=True)
class HorizontalFlip(_Flip):
    """Some images mirrored left to right.

    It comes before the resize, on uint8, where it moves a quarter of the bytes; mirroring and
    resizing commute.

    Attributes:
        probability: Probability of a flip, in [0, 1].
    """

    axis: ClassVar[int] = 1


@dataclasses.dataclass(frozen=True)
class VerticalFlip(_Flip):
    """Some images turned upside down: for views from above or through a microscope.

    Photographs of things on the ground seldom gain by it.

    Attributes:
        probability: Probability of a flip, in [0, 1].
    """

    axis: ClassVar[int] = 0
