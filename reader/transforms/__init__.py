"""What may be done to a picture between its bytes and the batch; one file per transform.

A transform is a pure function of the picture and of its random numbers, which the pipeline draws
from (seed, epoch, record). It works at one of three stages, in this order:

    "crop"      [2] int32, height and width -> [4] int32: top, left, height, width of what is wanted
    "decoded"   [height, width, 3] uint8 -> the same type, any size
    "resized"   [image_size, image_size, 3] float32 in [0, 255] -> the same

Cropping comes before decoding, for a decoder need not decode the rest (`reader/decoders.py`).

To add one: write a file, add it to TRANSFORMS, and name it in an augmentation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from reader.transforms.brightness_contrast import brightness_contrast
from reader.transforms.center_crop import center_crop
from reader.transforms.horizontal_flip import horizontal_flip
from reader.transforms.random_resized_crop import random_resized_crop

STAGES = ("crop", "decoded", "resized")


@dataclasses.dataclass(frozen=True)
class Transform:
    """One step on a picture.

    Attributes:
        stage: One of `STAGES`.
        num_random: How many random numbers it takes.
        apply: (picture or size, [num_random] float32 in [0, 1)) -> picture or box, in TensorFlow
            operations.
    """

    stage: str
    num_random: int
    apply: Callable[[Any, Any], Any]


TRANSFORMS = {
    "center_crop": Transform("crop", 0, center_crop),
    "random_resized_crop": Transform("crop", 4, random_resized_crop),
    "horizontal_flip": Transform("decoded", 1, horizontal_flip),
    "brightness_contrast": Transform("resized", 2, brightness_contrast),
}

# What `augment` may be; the first transform of each crops, stages never go back.
AUGMENTATIONS = {
    "none": ("center_crop",),
    "standard": ("random_resized_crop", "horizontal_flip"),
    "strong": ("random_resized_crop", "horizontal_flip", "brightness_contrast"),
}

__all__ = ["AUGMENTATIONS", "STAGES", "TRANSFORMS", "Transform"]
