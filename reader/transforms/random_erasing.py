"""A rectangle of the image is overwritten, so that a model learns to look at the rest too."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import graph_order, tf
from reader.transforms.base import Example, require_between, require_order
from reader.transforms.crops import random_rectangle, random_rectangles
from shard_format import UsageError, mix

FILLS = ("pixels", "color")


@dataclasses.dataclass(frozen=True)
class RandomErasing:
    """A rectangle filled with noise, or with one colour.

    Zhong et al., "Random Erasing Data Augmentation" (2020, arXiv 1708.04896), section 3, whose
    values and best filling ("RE-R") are the defaults. They draw area and ratio until both fit; here
    the area is drawn from what fits at the ratio, and the ratio is uniform in its logarithm, so
    that upright and lying rectangles are equally frequent.

    Attributes:
        probability: Probability that anything is erased, in [0, 1].
        min_area: Least share of the image that is erased, in [0, 1].
        max_area: Greatest share, in [min_area, 1].
        max_ratio: Greatest ratio of the rectangle's width to its height, and of height to width, in
            [1, 100].
        fill: "pixels" is a random value for every pixel and channel, "color" one random colour;
            a number in [0, 255] is that value.
    """

    probability: float = 0.5
    min_area: float = 0.02
    max_area: float = 0.4
    max_ratio: float = 1 / 0.3
    fill: str | float = "pixels"

    keeps_places: ClassVar[bool] = True
    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 6  # whether, ratio, area, top, left, filling

    def __post_init__(self) -> None:
        require_between(self, "probability", 0, 1)
        require_between(self, "min_area", 0, 1)
        require_between(self, "max_area", 0, 1)
        require_order(self, "min_area", "max_area")
        require_between(self, "max_ratio", 1, 100)
        if not isinstance(self.fill, str):
            require_between(self, "fill", 0, 255)
        elif self.fill not in FILLS:
            raise UsageError(
                f"fill is {self.fill!r} in RandomErasing. Pass {', '.join(FILLS)} or a number in "
                "[0, 255]."
            )

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same."""
        image = example["image"]
        erased = tf.cond(
            random[0] < self.probability, lambda: self._erased(image, random[1:]), lambda: image
        )
        return {**example, "image": tf.ensure_shape(erased, image.shape)}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same."""
        images = example["image"]
        sizes = np.full((len(images), 2), images.shape[1:3], np.int32)
        boxes = random_rectangles(sizes, random[:, 1:5], self._areas, math.log(self.max_ratio))
        for row in np.flatnonzero(random[:, 0] < self.probability):
            top, left, height, width = boxes[row]
            filling = self._filling_array(random[row, 5], (height, width, 3))
            images[row, top : top + height, left : left + width] = filling
        return example

    @property
    def _areas(self) -> tuple[float, float]:
        return (self.min_area, self.max_area)

    def _erased(self, image: Any, random: Any) -> Any:
        size = tf.cast(tf.shape(image)[:2], tf.float32)
        box = random_rectangle(size, random[:4], self._areas, math.log(self.max_ratio))
        top, left, height, width = tf.unstack(box)
        bottom, right = top + height, left + width
        rows = image[top:bottom]
        filling = self._filling(random[4], height, width)
        rows = tf.concat([rows[:, :left], filling, rows[:, right:]], axis=1)
        return tf.concat([image[:top], rows, image[bottom:]], axis=0)

    def _filling(self, random: Any, height: Any, width: Any) -> Any:
        """[height, width, 3] float32 of whole numbers in [0, 255]."""
        shape = tf.stack([height, width, 3])
        if not isinstance(self.fill, str):
            return tf.fill(shape, float(self.fill))
        # The random number has 24 bits; all values are drawn from them as from a seed.
        seed = graph_order.mix(tf.cast(random * 2.0**24, tf.uint64))
        if self.fill == "color":
            return tf.broadcast_to(_random_bytes(seed, 3), shape)
        return tf.reshape(_random_bytes(seed, tf.reduce_prod(shape)), shape)

    def _filling_array(self, random: Any, shape: tuple[int, int, int]) -> Any:
        """`_filling` in NumPy, or what becomes it when it is broadcast."""
        if not isinstance(self.fill, str):
            return self.fill
        seed = mix(np.array([random * 2.0**24], np.uint64))
        if self.fill == "color":
            return _random_bytes_array(seed, 3)
        return _random_bytes_array(seed, math.prod(shape)).reshape(shape)


def _random_bytes(seed: Any, count: Any) -> Any:
    """[count] float32: whole numbers in [0, 255], eight of every hash."""
    numbers = tf.cast(tf.range((count + 7) // 8), tf.uint64)
    values = tf.bitcast(graph_order.mix(seed ^ numbers), tf.uint8)
    return tf.cast(tf.reshape(values, [-1])[:count], tf.float32)


def _random_bytes_array(seed: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.uint8]:
    """[count]: `_random_bytes` in NumPy."""
    numbers = np.arange((count + 7) // 8, dtype=np.uint64)
    return mix(seed ^ numbers).view(np.uint8)[:count]
