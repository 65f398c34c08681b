"""Crops: the square in the middle for evaluation, a random rectangle for training."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import tf
from reader.transforms.base import Example, require_between, require_order


@dataclasses.dataclass(frozen=True)
class CenterCrop:
    """A square in the middle.

    Where the margins are odd, the right or lower one has the pixel more.

    Attributes:
        share: Part of the shorter side that the square has, in [0.01, 1]. 0.875 is the customary
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

    def arrays(self, example: Example, random: Any) -> Example:
        """{"size": [n, 2] int32} -> and "box" [n, 4]; see `reader.transforms`."""
        size = example["size"]
        side = size.min(axis=1, keepdims=True)
        if self.share < 1:
            side = np.round(np.float32(self.share) * side.astype(np.float32)).astype(np.int32)
            side = np.maximum(side, 1)
        return {**example, "box": np.concatenate([(size - side) // 2, side, side], axis=1)}


@dataclasses.dataclass(frozen=True)
class RandomResizedCrop:
    """A crop inside the image, of at least 1 x 1 pixel, that is then resized.

    Szegedy et al., "Going Deeper with Convolutions" (2015, arXiv 1409.4842), section 6: 8 % to
    100 % of the area, and a width to height ratio between 3:4 and 4:3.

    The ratio is drawn first (uniform in its logarithm), then the area from what fits at this
    ratio. The usual way, drawing both until they fit, needs a loop and an unknown number of
    random numbers; tf.image.sample_distorted_bounding_box is one operation but draws bits that
    TensorFlow may change, and augmentation here must survive a change of version.

    Attributes:
        min_area: Least share of the image's area, in [0.001, 1].
        max_area: Greatest share, in [min_area, 1].
        max_ratio: Greatest ratio of width to height, and of height to width, in [1, 10].
    """

    min_area: float = 0.08
    max_area: float = 1.0
    max_ratio: float = 4 / 3

    stage: ClassVar[str] = "crop"
    num_random: ClassVar[int] = 4  # ratio, area, top, left
    many: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_between(self, "min_area", 0.001, 1)
        require_between(self, "max_area", 0.001, 1)
        require_order(self, "min_area", "max_area")
        require_between(self, "max_ratio", 1, 10)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"size": [..., 2] int32} -> and "box"; see `reader.transforms`."""
        size = tf.cast(example["size"], tf.float32)
        crop = random_rectangle(
            size, random, (self.min_area, self.max_area), math.log(self.max_ratio)
        )
        return {**example, "box": crop}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"size": [n, 2] int32} -> and "box" [n, 4]; see `reader.transforms`."""
        areas = (self.min_area, self.max_area)
        box = random_rectangles(example["size"], random, areas, math.log(self.max_ratio))
        return {**example, "box": box}


# Steps of the table of `_power`; between two of them a ratio of at most 10 is off by less than one
# part in a million.
_STEPS = 4096


def random_rectangle(
    size: Any, random: Any, area_range: tuple[float, float], max_log_ratio: float
) -> Any:
    """[..., 4] int32: top, left, height, width of rectangles inside images, at least 1 x 1.

    Every operation rounds alike for one number and for many, so a rectangle does not depend on what
    others are drawn in addition.

    Args:
        size: [..., 2] float32, height and width in pixels.
        random: [..., 4] float32 in [0, 1): ratio, area, top, left.
        area_range: Least and greatest share of the area; where neither fits, what does.
        max_log_ratio: Greatest logarithm of width by height, and of height by width.
    """
    height, width = size[..., 0], size[..., 1]
    ratio = _power(max_log_ratio, random[..., 0])
    # Width x height of the crop is area x image; the tallest and the widest that fit:
    most = tf.minimum(height * height * ratio, width * width / ratio)
    image = height * width
    high = tf.minimum(area_range[1] * image, most)
    low = tf.minimum(area_range[0] * image, most)  # for the crop, lower on panoramas beyond 9:1
    area = low + random[..., 1] * (high - low)
    crop = tf.sqrt(tf.stack([area / ratio, area * ratio], axis=-1))
    crop = tf.clip_by_value(tf.round(crop), 1.0, size)
    corner = tf.floor(random[..., 2:] * (size - crop + 1))
    # A random number just below 1 may round up to size - crop + 1 in float32.
    corner = tf.minimum(corner, size - crop)
    return tf.cast(tf.concat([corner, crop], axis=-1), tf.int32)


def random_rectangles(
    size: npt.NDArray[np.int32],
    random: npt.NDArray[np.float32],
    area_range: tuple[float, float],
    max_log_ratio: float,
) -> npt.NDArray[np.int32]:
    """[n, 4] int32: `random_rectangle` in NumPy, to the bit."""
    sides = size.astype(np.float32)
    height, width = sides.T
    place = random[:, 0] * np.float32(_STEPS)
    step = np.floor(place)
    table = _powers(max_log_ratio)
    low, share = step.astype(np.int32), place - step
    ratio = table[low] * (1 - share) + table[low + 1] * share
    most = np.minimum(height * height * ratio, width * width / ratio)
    image = height * width
    high = np.minimum(np.float32(area_range[1]) * image, most)
    least = np.minimum(np.float32(area_range[0]) * image, most)
    area = least + random[:, 1] * (high - least)
    # Few records at a time: what NumPy wraps in Python, as clip and round, takes twice the time.
    crop = np.empty_like(sides)
    np.divide(area, ratio, out=crop[:, 0])
    np.multiply(area, ratio, out=crop[:, 1])
    crop = np.minimum(np.maximum(np.rint(np.sqrt(crop)), np.float32(1)), sides)
    corner = np.floor(random[:, 2:] * (sides - crop + 1))
    corner = np.minimum(corner, sides - crop)
    return np.concatenate([corner, crop], axis=1).astype(np.int32)


@functools.cache
def _powers(max_log: float) -> npt.NDArray[np.float32]:
    """[_STEPS + 1] float32: exp(max_log (2 random - 1)) of equidistant random numbers."""
    return np.exp(max_log * np.linspace(-1, 1, _STEPS + 1)).astype(np.float32)


def _power(max_log: float, random: Any) -> Any:
    """exp(max_log (2 random - 1)), from a table.

    Not tf.exp, which takes another algorithm for numbers that fill a vector register than for what
    is left over: the last bit would depend on the place in the tensor.
    """
    table = tf.constant(_powers(max_log))
    place = random * _STEPS
    step = tf.floor(place)
    low, share = tf.cast(step, tf.int32), place - step
    return tf.gather(table, low) * (1 - share) + tf.gather(table, low + 1) * share
