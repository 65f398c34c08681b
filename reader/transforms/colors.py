"""Other brightness, contrast, saturation and hue."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import cv2
import numpy as np
from typing_extensions import override

from reader.lazy_tensorflow import tf
from reader.transforms.base import Example, require_between

WEIGHTS = (0.299, 0.587, 0.114)  # ITU-R BT.601, luma; Pillow's mode "L"


def luminance(image: Any) -> Any:
    """[..., 3] float32 red, green and blue -> [..., 1] float32 of the same range."""
    red, green, blue = WEIGHTS
    # Three slices take a third of the time of a product and a sum over the last axis.
    return image[..., 0:1] * red + image[..., 1:2] * green + image[..., 2:3] * blue


@dataclasses.dataclass(frozen=True)
class _ChangeByFactor(abc.ABC):
    max_change: float = 0.4

    keeps_places: ClassVar[bool] = True
    stage: ClassVar[str] = "resized"
    num_random: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_between(self, "max_change", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        factor = 1 + (2 * random[0] - 1) * self.max_change
        return {**example, "image": self._changed(example["image"], factor)}

    @abc.abstractmethod
    def _changed(self, image: Any, factor: Any) -> Any: ...

    def _factors(self, random: Any) -> Any:
        """[n, 1, 1, 1] float32."""
        factors = 1 + (2 * random[:, 0] - 1) * np.float32(self.max_change)
        return factors[:, None, None, None]


@dataclasses.dataclass(frozen=True)
class Brightness(_ChangeByFactor):
    """All values times one factor; what rises above 255 is cut.

    Howard, "Some Improvements on Deep Convolutional Neural Network Based Image Classification"
    (2013, arXiv 1312.5402), section 2, draws factors of brightness, contrast and colour from
    [0.5, 1.5]; 0.4 is what training on ImageNet made of that since.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    @override
    def _changed(self, image: Any, factor: Any) -> Any:
        return tf.minimum(image * factor, 255.0)  # nothing can fall below 0

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        image = example["image"] * self._factors(random)
        return {**example, "image": np.minimum(image, np.float32(255), out=image)}


@dataclasses.dataclass(frozen=True)
class Contrast(_ChangeByFactor):
    """The distance of every value from the image's mean luminance, times one factor.

    Howard (2013, arXiv 1312.5402), section 2; see `Brightness`. The mean is that of Pillow's
    ImageEnhance.Contrast, which he used.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    @override
    def _changed(self, image: Any, factor: Any) -> Any:
        # The mean luminance is the luminance of the mean colour: no image of it is made. WindowRows
        # first: both axes at once take twice the time.
        mean = tf.reduce_mean(tf.reduce_mean(image, axis=0), axis=0)
        shift = (1 - factor) * luminance(mean)
        # The bare operation, for tf.clip_by_value passes over the image twice.
        return tf.raw_ops.ClipByValue(
            t=image * factor + shift, clip_value_min=0.0, clip_value_max=255.0
        )

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        factors, image = self._factors(random), example["image"]
        # A fortieth of the time of the mean over two axes in NumPy.
        means = np.array([cv2.mean(one)[:3] for one in image], np.float32)
        shift = (1 - factors) * luminance(means[:, None, None])
        image = image * factors
        image += shift
        return {**example, "image": np.clip(image, 0, 255, out=image)}


@dataclasses.dataclass(frozen=True)
class Saturation(_ChangeByFactor):
    """The saturation of every pixel times one factor, in HSV: hue and value stay.

    Howard (2013, arXiv 1312.5402), section 2; see `Brightness`. He fades to grey with Pillow,
    which changes the value of pure colours too; RandAugment here does as he did.

    Attributes:
        max_change: The factor is uniform in [1 - max_change, 1 + max_change), in [0, 1].
    """

    @override
    def _changed(self, image: Any, factor: Any) -> Any:
        # The bare operation, for tf.image.adjust_saturation divides by 255 and multiplies again.
        return tf.raw_ops.AdjustSaturation(images=image, scale=factor)

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        for image, factor in zip(example["image"], self._factors(random).ravel(), strict=True):
            hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
            np.minimum(hsv[..., 1] * factor, np.float32(1), out=hsv[..., 1])
            cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB, dst=image)
        return example


@dataclasses.dataclass(frozen=True)
class Hue:
    """The hue of every pixel turned, in HSV: saturation and value stay, and greys with them.

    The training code of Inception (TF-Slim, `inception_preprocessing.distort_color`) turns by up to
    0.2 of the circle. Half of that is the default here: colour distinguishes many classes.

    Attributes:
        max_turn: The turn is uniform in [-max_turn, max_turn), in parts of the circle, in [0, 0.5].
    """

    max_turn: float = 0.1

    keeps_places: ClassVar[bool] = True
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

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, size, size, 3] float32} -> the same; no value leaves [0, 255]."""
        # OpenCV has degrees, and takes more than a whole circle, but none below 0.
        turns = (2 * random[:, 0] - 1) * np.float32(self.max_turn) % 1 * 360
        for image, turn in zip(example["image"], turns, strict=True):
            hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
            hsv[..., 0] += turn
            cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB, dst=image)
        return example
