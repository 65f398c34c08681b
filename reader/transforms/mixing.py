"""mixup and CutMix: who is mixed with whom, by how much, and what that makes of labels.

All of it is a function of the random numbers that the records brought along: who is whose partner
depends on which records are in the batch, but not on their places in it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt

from reader.lazy_tensorflow import tf, traced
from reader.transforms.base import Example, require_between
from shard_format import UsageError

_STEPS = 2048  # of the table of a beta distribution, for each half
_GRID = 16384  # of the integral behind it


@dataclasses.dataclass(frozen=True)
class Mixup:
    """A mean of each record and another one of its batch.

    Zhang et al., "mixup: Beyond Empirical Risk Minimization" (2018, arXiv 1710.09412), section 2.
    Every record has a weight of its own; their code has one for each batch.

    Attributes:
        alpha: Parameter of the beta distribution of the weight, in (0, 100]: the smaller, the more
            images stay nearly as they are. They take 0.2 to 0.4 on ImageNet, 1 on CIFAR.
        probability: Probability that a record is mixed at all, in [0, 1].
    """

    alpha: float = 0.2
    probability: float = 1.0

    stage: ClassVar[str] = "batch"
    num_random: ClassVar[int] = 3  # weight, partner, whether

    def __post_init__(self) -> None:
        require_between(self, "alpha", 0.01, 100)
        require_between(self, "probability", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [batch, size, size, 3], "label": [batch, num_classes]} -> the same."""
        partners = find_partners(random[:, 1])
        share = beta_quantile(random[:, 0], self.alpha)
        share = tf.where(random[:, 2] < self.probability, share, 1.0)
        label = mix_labels(example, partners, share, "mixup")
        image = _mean(example["image"], partners, share)
        return {**example, "image": image, "label": label}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [batch, size, size, 3], "label": [batch, num_classes]} -> the same."""
        old, partners = example["image"], find_partners_array(random[:, 1])
        share = beta_quantile_array(random[:, 0], self.alpha)
        share = np.where(random[:, 2] < self.probability, share, np.float32(1))
        label = mix_labels(example, partners, share, "mixup", _rows)
        image = np.empty_like(old)
        for row, own in enumerate(share.tolist()):
            cv2.addWeighted(old[row], own, old[partners[row]], 1 - own, 0, dst=image[row])
        return {**example, "image": image, "label": label}


# Compiled: one pass over the batch takes a fifth of the time of the six that it is otherwise.
@traced(jit_compile=True, reduce_retracing=True)
def _mean(image: Any, partners: Any, share: Any) -> Any:
    """[batch, height, width, 3] of the type of the images; rounded where that is uint8."""
    own = share[:, None, None, None]
    mean = tf.cast(image, tf.float32) * own
    mean += tf.cast(tf.gather(image, partners), tf.float32) * (1 - own)
    return mean if image.dtype == tf.float32 else tf.cast(mean + 0.5, image.dtype)


@dataclasses.dataclass(frozen=True)
class CutMix:
    """A rectangle of each record overwritten by that of another one of its batch.

    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features" (2019, arXiv 1905.04899), section 3.1. The rectangle has the shape of the image and
    its middle anywhere, so it may be cut off at the border; labels are mixed by the area that is
    left. Every record has a rectangle of its own; their code has one for each batch.

    Attributes:
        alpha: Parameter of the beta distribution of the share that stays, in [0.01, 100].
        probability: Probability that a record is mixed at all, in [0, 1]; they take 1 on ImageNet,
            0.5 on CIFAR.
    """

    alpha: float = 1.0
    probability: float = 1.0

    stage: ClassVar[str] = "batch"
    num_random: ClassVar[int] = 5  # share, partner, whether, middle

    def __post_init__(self) -> None:
        require_between(self, "alpha", 0.01, 100)
        require_between(self, "probability", 0, 1)

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [batch, height, width, 3], "label": [batch, num_classes]} -> the same."""
        image = example["image"]
        partners = find_partners(random[:, 1])
        share = beta_quantile(random[:, 0], self.alpha)
        share = tf.where(random[:, 2] < self.probability, share, 1.0)
        size = tf.shape(image)[1:3]
        corners = _corners(size, share, random[:, 3:])
        erased = tf.cast(tf.reduce_prod(corners[1] - corners[0], axis=1), tf.float32)
        kept = 1 - erased / tf.cast(tf.reduce_prod(size), tf.float32)
        label = mix_labels(example, partners, kept, "cutmix")
        image = _patched(image, partners, corners)
        return {**example, "image": image, "label": label}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [batch, height, width, 3], "label": [batch, num_classes]} -> the same."""
        old, partners = example["image"], find_partners_array(random[:, 1])
        share = beta_quantile_array(random[:, 0], self.alpha)
        share = np.where(random[:, 2] < self.probability, share, np.float32(1))
        size = np.array(old.shape[1:3], np.int32)
        first, behind = _corners_array(size, share, random[:, 3:])
        erased = (behind - first).prod(axis=1).astype(np.float32)
        kept = 1 - erased / np.float32(size.prod())
        label = mix_labels(example, partners, kept, "cutmix", _rows)
        image = old.copy()
        for row, (top, left), (bottom, right) in zip(range(len(old)), first, behind, strict=True):
            image[row, top:bottom, left:right] = old[partners[row], top:bottom, left:right]
        return {**example, "image": image, "label": label}


def _corners(size: Any, share: Any, random: Any) -> Any:
    """[2, batch, 2] int32: rows and columns of the first pixel, and of the first one behind."""
    side = tf.sqrt(1 - share)[:, None] * tf.cast(size, tf.float32)
    # Whole pixels, as theirs, but rounded: cut down, a rectangle of a single pixel could not be.
    side = tf.cast(tf.round(side), tf.int32)
    middle = tf.cast(random * tf.cast(size, tf.float32), tf.int32)
    first = middle - side // 2
    return tf.stack([tf.clip_by_value(first, 0, size), tf.clip_by_value(first + side, 0, size)])


def _corners_array(
    size: npt.NDArray[np.int32], share: npt.NDArray[np.float32], random: npt.NDArray[np.float32]
) -> npt.NDArray[np.int32]:
    """`_corners` in NumPy."""
    side = np.sqrt(1 - share)[:, None] * size.astype(np.float32)
    side = np.round(side).astype(np.int32)
    middle = (random * size.astype(np.float32)).astype(np.int32)
    first = middle - side // 2
    return np.stack([np.clip(first, 0, size), np.clip(first + side, 0, size)])


# Compiled to one pass over the batch, which takes a tenth of the time of separate operations.
@traced(jit_compile=True, reduce_retracing=True)
def _patched(image: Any, partners: Any, corners: Any) -> Any:
    """[batch, height, width, 3]: the partner's pixels within the rectangles."""
    rows = tf.range(tf.shape(image)[1])[None, :, None, None]
    columns = tf.range(tf.shape(image)[2])[None, None, :, None]
    first, behind = corners[0][:, :, None, None, None], corners[1][:, :, None, None, None]
    inside = (rows >= first[:, 0]) & (rows < behind[:, 0])
    inside &= (columns >= first[:, 1]) & (columns < behind[:, 1])
    return tf.where(inside, tf.gather(image, partners), image)


def find_partners(random: Any) -> Any:
    """[batch] int32: for each record another one; in a batch of one, itself.

    The next greater random number is the partner, and the least that of the greatest. The papers'
    code permutes the batch, where a record may be left to itself.

    Args:
        random: [batch] float32.
    """
    order = tf.argsort(random)
    return tf.scatter_nd(order[:, None], tf.roll(order, -1, 0), tf.shape(order))


def find_partners_array(random: npt.NDArray[np.float32]) -> npt.NDArray[np.intp]:
    """[batch]: `find_partners` in NumPy."""
    order = np.argsort(random, kind="stable")
    partners = np.empty_like(order)
    partners[order] = np.roll(order, -1)
    return partners


def beta_quantile(random: Any, alpha: float) -> Any:
    """Float32 in [0, 1], beta distributed with both parameters alpha, from uniform numbers.

    By a table of the inverse distribution: TensorFlow draws from it only by rejection, with bits
    that it may change from version to version.
    """
    table = tf.constant(_beta_table(alpha))
    place = random * (2 * _STEPS)
    below = tf.minimum(tf.cast(place, tf.int32), 2 * _STEPS - 1)
    low, high = tf.gather(table, below), tf.gather(table, below + 1)
    return low + (place - tf.cast(below, tf.float32)) * (high - low)


def beta_quantile_array(random: npt.NDArray[np.float32], alpha: float) -> npt.NDArray[np.float32]:
    """`beta_quantile` in NumPy, the same to 1e-37."""
    table, place = _beta_table(alpha), random * np.float32(2 * _STEPS)
    below = np.minimum(place.astype(np.int32), 2 * _STEPS - 1)
    low, high = table[below], table[below + 1]
    return np.asarray(low + (place - below.astype(np.float32)) * (high - low))


@functools.cache
def _beta_table(alpha: float) -> npt.NDArray[np.float32]:
    """[2 x _STEPS + 1] float32: the quantiles of 0, 1 / (2 x _STEPS), ... 1."""
    # The density is x^(a-1) (1-x)^(a-1). Half of it is enough, for it is symmetric. Below 1 it has
    # a pole at 0, which goes when it is integrated over t = x^a.
    power = alpha if alpha < 1 else 1.0
    t = np.linspace(0.0, 0.5**power, _GRID + 1)
    x = t ** (1 / power)
    density = (1 - x) ** (alpha - 1) if alpha < 1 else (4 * x * (1 - x)) ** (alpha - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    wanted = np.linspace(0.0, mass[-1], _STEPS + 1)
    half = np.interp(wanted, mass, t) ** (1 / power)
    return np.concatenate([half, 1 - half[-2::-1]]).astype(np.float32)


def without_labels(name: str) -> UsageError:
    """The error of a transform of this name where there are no labels."""
    return UsageError(
        f"{name} in augment of reader.load mixes labels, but the set has none. Leave {name} out."
    )


def _rows(values: npt.NDArray[Any], numbers: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    return values[numbers]


def mix_labels(
    batch: Example,
    partners: Any,
    share: Any,
    name: str,
    rows_of: Callable[[Any, Any], Any] = lambda values, numbers: tf.gather(values, numbers),
) -> Any:
    """[batch, num_classes] float32: the record's labels by its share, its partner's by the rest.

    Args:
        batch: With "label", [batch, num_classes] float32, or several such by name.
        partners: [batch] int32.
        share: [batch] float32 in [0, 1].
        name: Name of the transform, for the message.
        rows_of: Takes rows of a tensor, or of an array where all are arrays.

    Raises:
        UsageError: There are no labels.
    """
    if "label" not in batch:
        raise without_labels(name)

    def mixed(label: Any) -> Any:
        return label * share[:, None] + rows_of(label, partners) * (1 - share[:, None])

    label = batch["label"]
    if isinstance(label, dict):
        return {name: mixed(one) for name, one in label.items()}
    return mixed(label)
