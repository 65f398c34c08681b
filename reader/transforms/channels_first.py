"""Images as [3, height, width], the order of axes that PyTorch and ONNX models expect."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from reader.lazy_tensorflow import tf
from reader.transforms.base import Example


@dataclasses.dataclass(frozen=True)
class ChannelsFirst:
    """The channels before the rows; nothing else changes."""

    keeps_places: ClassVar[bool] = True
    stage: ClassVar[str] = "layout"
    num_random: ClassVar[int] = 0

    def shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(3, height, width), from (height, width, 3)."""
        return (shape[2], shape[0], shape[1])

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [..., height, width, 3]} -> [..., 3, height, width] of the same type."""
        image = example["image"]
        leading = list(range(image.shape.rank - 3))
        first = len(leading)
        axes = [*leading, first + 2, first, first + 1]
        return {**example, "image": tf.transpose(image, axes)}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, height, width, 3]} -> [n, 3, height, width] of the same type."""
        image = np.ascontiguousarray(example["image"].transpose(0, 3, 1, 2))
        return {**example, "image": image}
