"""RandAugment: a few of fourteen operations, drawn at random, all at one magnitude."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from reader.lazy_tensorflow import tf
from reader.transforms import pillow, pillow_arrays
from reader.transforms.base import Example, require_between
from reader.transforms.warps import warp_array_nearest, warp_nearest
from shard_format import UsageError

# What the values of a range below mean: at level 1 (magnitude 10) they are the greatest of Cubuk
# et al., "AutoAugment" (2019, arXiv 1805.09501), table 6.
MAX_DEGREES = 30.0
MAX_SHEAR = 0.3
MAX_SHIFT = 150 / 331  # of the side: they shift images of 331 pixels by up to 150
MAX_CHANGE = 0.9  # of the factor 1, of brightness, contrast, colour and sharpness
MAX_BITS_LOST = 4
FILL = 128  # grey, as in their code

# ([size, size, 3] uint8, level, sign: scalar float32, 1 or -1) -> the same. A tensor becomes a
# tensor, an array an array; the sign is a tensor or a number accordingly.
Operation = Callable[[Any, float, Any], Any]


def _pillow(image: Any) -> Any:
    """Pillow's operations on arrays or on tensors."""
    return pillow_arrays if isinstance(image, np.ndarray) else pillow


def _warped(image: Any, matrix: tuple[Any, ...]) -> Any:
    # The nearest pixel, Pillow's default, which their code takes.
    warped = warp_array_nearest if isinstance(image, np.ndarray) else warp_nearest
    return warped(image, matrix, FILL)


def rotate(image: Any, level: float, sign: Any) -> Any:
    """Turned around its middle."""
    angle = math.radians(level * MAX_DEGREES)
    cos, sin = math.cos(angle), sign * math.sin(angle)
    return _warped(image, (cos, -sin, 0, sin, cos, 0))


def shear_x(image: Any, level: float, sign: Any) -> Any:
    """WindowRows moved the further, the further they are from the middle."""
    return _warped(image, (1, sign * (level * MAX_SHEAR), 0, 0, 1, 0))


def shear_y(image: Any, level: float, sign: Any) -> Any:
    """Columns moved likewise."""
    return _warped(image, (1, 0, 0, sign * (level * MAX_SHEAR), 1, 0))


def translate_x(image: Any, level: float, sign: Any) -> Any:
    """Moved sideways; never quite out of the frame."""
    return _warped(image, (1, 0, sign * _shift(level, image.shape[1]), 0, 1, 0))


def translate_y(image: Any, level: float, sign: Any) -> Any:
    """Moved up or down likewise."""
    return _warped(image, (1, 0, 0, 0, 1, sign * _shift(level, image.shape[0])))


def posterize(image: Any, level: float, sign: Any) -> Any:
    """Fewer bits a value, at least one."""
    return _pillow(image).posterize(image, max(1, 8 - round(level * MAX_BITS_LOST)))


def solarize(image: Any, level: float, sign: Any) -> Any:
    """Light values inverted, at level 1 all."""
    return _pillow(image).solarize(image, max(0, round(256 * (1 - level))))


def _shift(level: float, side: int) -> float:
    return min(level * MAX_SHIFT, 0.95) * side


def _factor(level: float, sign: Any) -> Any:
    factor = 1 + sign * (level * MAX_CHANGE)
    return (factor + abs(factor)) / 2  # at least 0, as a tensor and as a number


# The fourteen of the paper, section 3.
OPERATIONS: dict[str, Operation] = {
    "identity": lambda image, level, sign: image,
    "autocontrast": lambda image, level, sign: _pillow(image).autocontrast(image),
    "equalize": lambda image, level, sign: _pillow(image).equalize(image),
    "rotate": rotate,
    "solarize": solarize,
    "color": lambda image, level, sign: _pillow(image).color(image, _factor(level, sign)),
    "posterize": posterize,
    "contrast": lambda image, level, sign: _pillow(image).contrast(image, _factor(level, sign)),
    "brightness": lambda image, level, sign: _pillow(image).brightness(image, _factor(level, sign)),
    "sharpness": lambda image, level, sign: _pillow(image).sharpness(image, _factor(level, sign)),
    "shear_x": shear_x,
    "shear_y": shear_y,
    "translate_x": translate_x,
    "translate_y": translate_y,
}


@dataclasses.dataclass(frozen=True)
class RandAugment:
    """Some operations in turn, each one of fourteen with equal probability.

    Cubuk et al., "RandAugment: Practical automated data augmentation with a reduced search space"
    (2020, arXiv 1909.13719), section 3. The defaults are theirs for ResNet-50 on ImageNet (section
    4.4); they took magnitude 17 for EfficientNet-B5 and 28 for B7. As in their code, magnitudes
    above 10 go beyond the greatest strengths of AutoAugment. An operation that has a direction
    takes either with probability one half, which their code does for warps, and AutoAugment for
    colours too.

    Attributes:
        num_ops: How many operations, a whole number in [1, 8].
        magnitude: How strong they are, in [0, 30]. At 0 none changes the image but autocontrast
            and equalize, which know no strength.
    """

    num_ops: int = 2
    magnitude: float = 9.0

    stage: ClassVar[str] = "resized"

    def __post_init__(self) -> None:
        require_between(self, "num_ops", 1, 8)
        if not isinstance(self.num_ops, int):
            raise UsageError(
                f"num_ops is {self.num_ops!r} in RandAugment. Pass an integer, such as 2."
            )
        require_between(self, "magnitude", 0, 30)

    @property
    def num_random(self) -> int:
        """Two for each operation: which, and in which direction."""
        return 2 * self.num_ops

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same, of whole numbers."""
        # The operations are made for whole numbers: most of them are tables of 256 entries.
        image = tf.cast(example["image"] + 0.5, tf.uint8)
        for number in range(self.num_ops):
            image = self._changed(image, random[2 * number], random[2 * number + 1])
        return {**example, "image": tf.cast(image, tf.float32)}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same, of whole numbers."""
        operations = list(OPERATIONS.values())
        drawn = np.minimum((random[:, ::2] * len(operations)).astype(int), len(operations) - 1)
        signs = np.where(random[:, 1::2] < 0.5, np.float32(-1), np.float32(1))
        for row, values in enumerate(example["image"]):
            image = (values + np.float32(0.5)).astype(np.uint8)
            for number, sign in zip(drawn[row], signs[row], strict=True):
                image = operations[number](image, self.magnitude / 10, sign)
            values[:] = image
        return example

    def _changed(self, image: Any, which: Any, direction: Any) -> Any:
        """By one operation; the others cost nothing, for only its branch runs."""
        sign = tf.where(direction < 0.5, -1.0, 1.0)
        level = self.magnitude / 10
        branches = [
            lambda operation=operation: operation(image, level, sign)
            for operation in OPERATIONS.values()
        ]
        # A random number just below 1 may round up in float32.
        drawn = tf.minimum(tf.cast(which * len(branches), tf.int32), len(branches) - 1)
        return tf.ensure_shape(tf.switch_case(drawn, branches), image.shape)
