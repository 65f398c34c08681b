"""Other colours, all turned by the same angle of the colour circle."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf

from reader.transforms.base import Example, require_between


@dataclasses.dataclass(frozen=True)
class Hue:
    """The hue of every pixel turned, in HSV: saturation and value stay, and greys with them.

    The training code of Inception (TF-Slim, `inception_preprocessing.distort_color`) turns by up to
    0.2 of the circle. Half of that is the default here: colour distinguishes many classes.

    Attributes:
        max_turn: The turn is uniform in [-max_turn, max_turn), in parts of the circle, in [0, 0.5].
    """

    max_turn: float = 0.1

    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_turn", 0, 0.5)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        turn = (2 * random[0] - 1) * self.max_turn
        # The bare operation, for tf.image.adjust_hue divides by 255 and multiplies again.
        image = tf.raw_ops.AdjustHue(images=example["image"], delta=turn)
        return {**example, "image": image}
