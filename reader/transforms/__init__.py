"""Transforms of images between decoding and batching.

A transform maps a dictionary of tensors or arrays and its random numbers, which the pipeline draws
from (seed, epoch, record), to such a dictionary (`Transform`). It works at one of six stages, in
this order:

    "crop"     {"size": [2] int32, height and width} -> and "box": [4] int32, top, left, height and
               width of what is wanted; the rest need not be decoded (`reader/decoders.py`)
    "decoded"  {"image": [height, width, 3] uint8} -> the same, any size
    "resized"  {"image": [image_size, image_size, 3] float32 in [0, 255]} -> the same
    "batch"    {"image": [batch, image_size, image_size, 3] of the type of the stream, in [0, 255]},
               with random numbers [batch, num_random] -> the same
    "values"   {"image": [..., image_size, image_size, 3]} -> the same as float32 of any range
    "layout"   {"image": unchanged} -> in the shape that its method `shape` makes of (height, width,
               3)

Where the set has labels, there is a "label" too: scalar int64 or [num_classes] float32; at the
stage "batch" always [batch, num_classes] float32. Several labels are a dictionary of these. "..."
is a batch where one of that stage came before, and nothing otherwise. All images have image_size,
or their stored size without one.

`__call__` says this in TensorFlow operations, for one image before the batch. `arrays` says it in
NumPy and OpenCV, for [n, ...] of them, but for one at the stage "decoded", and has labels at the
stage "batch" alone. Both do the same by the same random numbers.

A transform that moves pixels may have a method `places` (random, (height, width)) -> (a, b, c, d,
e, f), by which objects and masks follow: a place (x, y), in pixels from the upper left corner, goes
to (a x + b y + c, d x + e y + f). One that moves none has `keeps_places` = True.

To add one: write a file, and add it to TRANSFORMS. One of your own may be handed to `reader.load`
unchanged; docs/transforms.md has an example.
"""

from __future__ import annotations

from collections.abc import Callable

from reader.transforms.base import STAGES, Example, Transform
from reader.transforms.channels_first import ChannelsFirst
from reader.transforms.colors import Brightness, Contrast, Hue, Saturation
from reader.transforms.crops import CenterCrop, RandomResizedCrop
from reader.transforms.flips import HorizontalFlip, VerticalFlip
from reader.transforms.mixing import CutMix, Mixup
from reader.transforms.rand_augment import RandAugment
from reader.transforms.random_erasing import RandomErasing
from reader.transforms.warps import Rotation, Scale

# By the names that `augment` takes, each with its default parameters. `reader.Normalization` is a
# transform too, but has no name: its numbers are those of a set.
TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "center_crop": CenterCrop,
    "random_resized_crop": RandomResizedCrop,
    "horizontal_flip": HorizontalFlip,
    "vertical_flip": VerticalFlip,
    "rotation": Rotation,
    "scale": Scale,
    "brightness": Brightness,
    "contrast": Contrast,
    "saturation": Saturation,
    "hue": Hue,
    "rand_augment": RandAugment,
    "random_erasing": RandomErasing,
    "mixup": Mixup,
    "cutmix": CutMix,
    "channels_first": ChannelsFirst,
}

# Names for several at once.
AUGMENTATIONS = {
    "none": ("center_crop",),
    "standard": ("random_resized_crop", "horizontal_flip"),
    "strong": ("random_resized_crop", "horizontal_flip", "contrast", "brightness"),
}

__all__ = [
    "AUGMENTATIONS",
    "STAGES",
    "TRANSFORMS",
    "Brightness",
    "CenterCrop",
    "ChannelsFirst",
    "Contrast",
    "CutMix",
    "Example",
    "HorizontalFlip",
    "Hue",
    "Mixup",
    "RandAugment",
    "RandomErasing",
    "RandomResizedCrop",
    "Rotation",
    "Saturation",
    "Scale",
    "Transform",
    "VerticalFlip",
]
