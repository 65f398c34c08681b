"""Pixels around 0, or in [0, 1], by what was measured on the training split.

The numbers come from the manifest, never from the split that is read: training, validation and
whatever is read later must be scaled alike.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from foundation.storage import Place
from reader.lazy_tensorflow import tf
from reader.transforms.base import Example
from shard_format import Manifest, ShardSetError, UsageError

TRAINING_SPLIT = "train"
STATISTICS = "pixels"  # the key in a split's statistics


@dataclasses.dataclass(frozen=True)
class Normalization:
    """(value - shift) / scale, for each channel: a transform of the stage "values".

    `reader.load(normalize=...)` makes one of the numbers of a set. For numbers of your own, such as
    those that a network was trained with elsewhere, put one into `augment`.

    Attributes:
        mode: "zscore", "minmax", or what you call your own.
        shift: Red, green, blue: the mean, or the least value, in [0, 255].
        scale: The standard deviation, or the greatest less the least value; 1 where that is 0.
    """

    mode: str
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    keeps_places: ClassVar[bool] = True
    stage: ClassVar[str] = "values"
    num_random: ClassVar[int] = 0

    def __post_init__(self) -> None:
        for name, values in (("shift", self.shift), ("scale", self.scale)):
            if not _are_finite(values) or (name == "scale" and 0 in values):
                rule = "three finite numbers" + (", none of them 0" if name == "scale" else "")
                raise UsageError(
                    f"{name} is {values!r} in Normalization. Pass {rule}, one for each of red, "
                    "green and blue, in units of [0, 255]."
                )

    def __call__(self, example: Example, random: Any) -> Example:
        """{"image": [..., height, width, 3]} -> the same as float32."""
        image = tf.cast(example["image"], tf.float32)
        return {**example, "image": (image - self.shift) / self.scale}

    def arrays(self, example: Example, random: Any) -> Example:
        """{"image": [n, height, width, 3]} -> the same as float32."""
        shift, scale = (np.array(values, np.float32) for values in (self.shift, self.scale))
        image = np.subtract(example["image"], shift, dtype=np.float32)
        image /= scale
        return {**example, "image": image}


def _are_finite(values: Any) -> bool:
    try:
        return len(values) == 3 and all(math.isfinite(value) for value in values)
    except TypeError:  # a single number, or none at all
        return False


def find_normalization(mode: str, manifest: Manifest, where: Place) -> Normalization | None:
    """What a mode means for a set; None for "none".

    Raises:
        ShardSetError: The set has no training split, or its pixels were not measured.
    """
    if mode == "none":
        return None
    measured = _measured(mode, manifest, where)
    if mode == "zscore":
        shift, scale = measured["mean"], measured["std"]
    else:
        shift = measured["min"]
        scale = [high - low for low, high in zip(shift, measured["max"], strict=True)]
    return Normalization(
        mode,
        tuple(float(value) for value in shift),
        # All pixels are alike there: there is nothing to divide by, and nothing that is to be.
        tuple(float(value) or 1.0 for value in scale),
    )


def _measured(mode: str, manifest: Manifest, where: Place) -> Any:
    if TRAINING_SPLIT not in manifest.splits:
        raise ShardSetError(
            f"No split named {TRAINING_SPLIT!r} among {', '.join(manifest.splits)} in {where}, "
            f"which normalize={mode!r} takes its statistics from. Build the set with one, or pass "
            'normalize="none".'
        )
    measured = manifest.splits[TRAINING_SPLIT].statistics.get(STATISTICS)
    if not measured or not measured.get("count", 1):
        raise ShardSetError(
            f"No {STATISTICS!r} in the statistics of the training split of {where}, which "
            f"normalize={mode!r} needs. Build the set again with this version of shardmill (with "
            '--quality keep, of more than a few images), or pass normalize="none".'
        )
    return measured
