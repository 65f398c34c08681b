"""The largest square in the middle of an image, for evaluation."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between


@dataclasses.dataclass(frozen=True)
class CenterCrop:
    """A square in the middle.

    Where the margins are odd, the right or lower one has the pixel more.

    Attributes:
        share: Of the shorter side that the square has, in [0.01, 1]. 0.875 is the customary
            "resize to 256, cut out 224" of evaluation on ImageNet.
    """

    share: float = 1.0

    stage: ClassVar[str] = "crop"
    num_random: ClassVar[int] = 0
    many: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_between(self, "share", 0.01, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"size": [..., 2] int32} -> and "box"; see `reader.transforms`."""
        size = example["size"]
        side = tf.reduce_min(size, axis=-1, keepdims=True)
        if self.share < 1:
            side = tf.cast(tf.round(self.share * tf.cast(side, tf.float32)), tf.int32)
            side = tf.maximum(side, 1)
        return {**example, "box": tf.concat([(size - side) // 2, side, side], axis=-1)}
