"""More or less light."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between


@dataclasses.dataclass(frozen=True)
class Brightness:
    """All values times one factor.

    Howard, "Some Improvements on Deep Convolutional Neural Network Based Image Classification"
    (2013, arXiv 1312.5402), section 2, draws factors of brightness, contrast and colour from
    [0.5, 1.5]; 0.4 is what training on ImageNet made of that since.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    max_change: float = 0.4

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_change", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same; what rises above 255 is cut."""
        factor = 1 + (2 * random[0] - 1) * self.max_change
        # Nothing can fall below 0.
        return {**example, "image": tf.minimum(example["image"] * factor, 255.0)}
