"""Images with one label, any number of them, or none: decode, crop, resize, transform, batch."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from typing_extensions import override

from reader.access.numpy_decoders import NUMPY_DECODERS, Pixels
from reader.batch_memory import aligned_empty
from reader.cache.pixels import PLACE, DecodedPixels
from reader.options import ReadOptions, check_fits
from reader.record_types.base import Parser, joined
from reader.record_types.encoded import EncodedImageParser, encoded_parser
from reader.record_types.features import LabeledParser, find_feature, find_labels
from reader.record_types.further import find_further
from reader.record_types.objects import is_placed, moved_objects
from reader.records.open_split import OpenSplit
from reader.records.split_index import SplitIndex
from reader.transforms import CutMix, Example, Mixup
from reader.transforms.augmentation import Steps, find_transforms, is_of_arrays
from reader.transforms.mixing import without_labels
from reader.transforms.normalization import Normalization, find_normalization
from reader.windows import WindowRows
from shard_format import DamageError, Feature, ShardSetError, UsageError

# A part of a batch: enough that a thread is busy for some milliseconds.
_PART_RECORDS = 16
SIDES = ("height", "width", PLACE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageParser(LabeledParser):
    """Parses images.

    Output: (images [batch, height, width, 3] of `element_dtype`, target); the images alone where
    the set has no labels. The target is [batch] int64, or [batch, num_classes] float32 of zeros and
    ones, or of shares where the records of a batch are mixed.

    Attributes:
        image: The feature with the image.
        pixels: Decoded images that records have the places of; None where they are encoded.
        steps: Transforms of the augmentation, and the normalization.
        image_size: Height and width in pixels of every image; None does not resize.
        stored_size: Height and width of the stored images where all have the same, else Nones.
        dtype: "uint8" or "float32".
    """

    image: Feature
    pixels: DecodedPixels | None = None
    steps: Steps
    image_size: int | None
    stored_size: tuple[int | None, int | None]
    dtype: str

    @property
    @override
    def input_name(self) -> str:
        return self.image.name

    @property
    @override
    def mixes(self) -> bool:
        return bool(self.steps.of("batch"))

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        shape = self.image_shape
        for transform in self.steps.of("layout"):
            shape = transform.shape(shape)  # type: ignore[attr-defined]
        return shape

    @property
    def image_shape(self) -> tuple[int | None, ...]:
        """Shape of an image before the order of its axes is changed."""
        if self.image_size is not None:
            return (self.image_size, self.image_size, 3)
        return (*self.stored_size, 3)

    @property
    @override
    def element_dtype(self) -> str:
        # Values that a transform has changed are no longer in [0, 255].
        return "float32" if self.steps.of("values") else self.dtype

    @property
    @override
    def target_specs(self) -> Any:
        return self.labels.share_specs if self.labels and self.mixes else super().target_specs

    @property
    @override
    def targets(self) -> str:
        kind = self.labels.kind
        return "shares" if self.mixes and kind == "label" else kind

    @property
    @override
    def needs_tensorflow(self) -> str:
        names = [type(one).__name__ for one in self.steps.transforms if not is_of_arrays(one)]
        return f"{' and '.join(names)} in augment" if names else ""

    @property
    @override
    def part_records(self) -> int:
        return _PART_RECORDS

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        cropped = dataclasses.replace(self, steps=Steps(self.steps.of("crop")))
        return [("decode", cropped), ("augment", self)]

    @override
    def start(self, size: int) -> Any:
        shape = self.image_shape
        if None in shape:  # a batch of one image
            return None
        return aligned_empty((size, *(int(side or 0) for side in shape)), self.element_dtype)

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        random = rows.random(self.steps.num_random)
        images = self._decoded(rows)
        sizes = np.array([image.shape[:2] for image in images], np.int32)
        boxes: npt.NDArray[np.int32] | None = None
        if self.steps.of("crop"):
            boxes = self.steps.apply_arrays("crop", {"size": sizes}, random)["box"]
            images = _cut(images, boxes)
        if self.steps.of("decoded"):
            images = [
                self.steps.apply_arrays("decoded", {"image": image}, random[row])["image"]
                for row, image in enumerate(images)
            ]
        if memory is None:
            memory, begin = np.empty((1, *images[0].shape), self.element_dtype), 0
        own = memory[begin : begin + len(images)]
        self._resized(images, own, random)
        return (
            own,
            self.labels.targets(rows.columns),
            self.further.values(rows.columns, rows.where, sizes, boxes, random),
            random,
        )

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        images, labels, further, random = zip(*parts, strict=True)
        image = images[0] if memory is None else memory
        example = {"image": image if kept is None else image[kept]}
        if self.labels:
            example["label"] = joined(labels, kept)
        if self.mixes:
            example = self._mixed(example, joined(random, kept))
        # The order of axes is the last step, so that threads write to one array.
        example = self.steps.apply_arrays("layout", example, None)
        return self.element(example["image"], joined(further, kept), example.get("label"))

    def _mixed(self, example: Example, random: npt.NDArray[np.float32]) -> Example:
        """What is left to do after `decode` of a batch whose records are mixed with one another."""
        if self.labels:
            example["label"] = self.labels.shares(example["label"])
        for stage in ("batch", "values"):
            example = self.steps.apply_arrays(stage, example, random)
        return example

    def with_pixels(self, pixels: DecodedPixels) -> ImageParser:
        """A parser of records that have the places of decoded images."""
        others = tuple(one for one in self.features if one.name not in (self.image.name, *SIDES))
        places = tuple(Feature(name, "int64") for name in SIDES)
        return dataclasses.replace(self, features=(*places, *others), pixels=pixels)

    def _decoded(self, rows: WindowRows) -> list[Pixels]:
        """The pixels of each record.

        Raises:
            DamageError: One is no image.
        """
        names = [one.name for one in self.features if one.name in SIDES]
        sides = {name: rows.numbers_of(name).values.tolist() for name in names}
        if self.pixels is not None:
            places = zip(sides[PLACE], sides["height"], sides["width"], strict=True)
            return [self.pixels.image(*place) for place in places]
        decode, images = NUMPY_DECODERS[self.image.encoding], []
        for row, stored in enumerate(rows.byte_values(self.image.name)):
            try:
                images.append(decode(stored, {name: sides[name][row] for name in names}))
            except ValueError as error:
                raise DamageError(
                    f"{len(stored)} bytes of feature {self.image.name!r} are not an image "
                    f"({error}) in {rows.where(row)}. Build the set again."
                ) from error
        return images

    def _resized(
        self, images: list[Pixels], target: npt.NDArray[Any], random: npt.NDArray[np.float32]
    ) -> None:
        """Writes [n, height, width, 3] of the images, resized bilinearly, and transformed.

        Where records are mixed, that comes before the stage "values".

        Without antialiasing, as tf.image.resize: prepare images at about the size they are read at.
        Whole numbers are resized as such, and are within 1 of what float32 gives.
        """
        stages = ("resized",) if self.mixes else ("resized", "values")
        steps = [step for stage in stages for step in self.steps.of(stage)]
        size = (target.shape[2], target.shape[1])
        if not steps and target.dtype == np.uint8:
            for image, own in zip(images, target, strict=True):
                _resize(image, size, own)
            return
        values = np.empty(target.shape, np.float32) if steps else target
        for image, own in zip(images, values, strict=True):
            _resize(image.astype(np.float32), size, own)
        example = {"image": values}
        for stage in stages:
            example = self.steps.apply_arrays(stage, example, random)
        if not steps:
            return
        if target.dtype == np.uint8:  # values are in [0, 255]: to the nearest
            np.add(example["image"], np.float32(0.5), out=values)
            example["image"] = values
        np.copyto(target, example["image"], casting="unsafe")


def _cut(images: list[Pixels], boxes: npt.NDArray[np.int32]) -> list[Pixels]:
    """What is wanted of each image, without a copy."""
    return [
        image[top : top + height, left : left + width]
        for image, (top, left, height, width) in zip(images, boxes.tolist(), strict=True)
    ]


def _resize(image: npt.NDArray[Any], size: tuple[int, int], target: npt.NDArray[Any]) -> None:
    if image.shape[1::-1] == size:
        np.copyto(target, image)
    else:
        cv2.resize(image, size, dst=target, interpolation=cv2.INTER_LINEAR)


def image_parser(split: OpenSplit, options: ReadOptions) -> ImageParser | EncodedImageParser:
    """Creates the parser of a split of images.

    Args:
        split: Split whose schema has one feature of kind image. The columns width and height of
            its index are used where images are not resized.
        options: Options of `reader.load`.

    Raises:
        ShardSetError: The schema lacks a feature, a record has no label, or pixels that are to be
            normalized were not measured.
        UsageError: The images differ in size and are not to be resized, or an option is not for
            images.
    """
    check_fits(options, "image", split.root)
    image = find_feature(split.schema, "image")
    if image is None:
        features = split.schema.features
        names = ", ".join(f"{feature.name} ({feature.kind})" for feature in features)
        raise ShardSetError(
            f"No feature of kind image among {names or 'no features'} in {split.where}. Build the "
            "set again with one."
        )
    if not options.decode:
        return encoded_parser(split, options, image)
    normalization = find_normalization(options.normalize, split.manifest, split.root)
    transforms = find_transforms(options.augment)
    stored: tuple[int | None, int | None] = (None, None)
    if options.image_size is None:
        # The whole image: "none" is then without its crop.
        transforms = () if options.augment == "none" else transforms
        stored = _stored_size(split.index, options.batch_size, split.where)
    steps = with_normalization(Steps(transforms), normalization)
    check_sizes(steps, options, stored if options.image_size is None else (0, 0))
    if steps.of("batch") and options.remainder == "pad":
        raise UsageError(
            "remainder='pad' does not work with a transform of the stage batch in reader.load: "
            "records "
            'would be mixed with added ones of weight 0. Pass remainder="drop" or "wrap".'
        )
    if image.encoding not in NUMPY_DECODERS:
        raise ShardSetError(
            f"Feature {image.name!r} has the unknown encoding {image.encoding!r} in {split.where}. "
            "Install a version of shardmill that knows it; this one decodes "
            f"{', '.join(NUMPY_DECODERS)}."
        )
    sides = SIDES[:2] if image.encoding == "raw" else ()
    labels = find_labels(split, options.label)
    further = find_further(split, options, (image.name, *labels.names))
    if any(map(is_placed, further.features)):
        placed = [one.name for one in further.features]
        further = dataclasses.replace(further, moved=moved_objects(steps, options, placed))
    for transform in steps.of("batch"):
        if isinstance(transform, Mixup | CutMix) and not labels:
            raise without_labels(type(transform).__name__.lower())
    return ImageParser(
        features=(
            image,
            *(Feature(name, "int64") for name in sides),
            *labels.features.values(),
            *further.stored,
        ),
        image=image,
        labels=labels,
        further=further,
        steps=steps,
        image_size=options.image_size,
        stored_size=stored,
        dtype=options.dtype,
        normalization=normalization_of(steps),
    )


def _stored_size(index: SplitIndex, batch_size: int, where: Path) -> tuple[int | None, int | None]:
    """(height, width) that all images have, or Nones where a batch is a single image."""
    if {"height", "width"} <= set(index.column_names):
        limits = [pc.min_max(index[name]).as_py() for name in ("height", "width")]
        if all(limit["min"] == limit["max"] for limit in limits):
            return limits[0]["min"], limits[1]["min"]
        sizes = " and ".join(
            f"{name}s of {limit['min']} to {limit['max']}"
            for name, limit in zip(("height", "width"), limits, strict=True)
        )
    else:
        sizes = "an index without sizes"
    if batch_size == 1:
        return None, None
    raise UsageError(
        f"Images differ in size, so image_size=None cannot batch them: {sizes} in {where}. "
        "Pass an image_size, or batch_size=1."
    )


def with_normalization(steps: Steps, normalization: Normalization | None) -> Steps:
    """With the normalization that was asked for by name, the last of its stage."""
    if normalization is None:
        return steps
    layouts = steps.of("layout")
    before = steps.transforms[: len(steps.transforms) - len(layouts)]
    return Steps((*before, normalization, *layouts))


def normalization_of(steps: Steps) -> Normalization | None:
    """The one among the transforms.

    Raises:
        UsageError: There are two.
    """
    normalizations = [item for item in steps.of("values") if isinstance(item, Normalization)]
    if len(normalizations) > 1:
        raise UsageError(
            f"Images would be normalized {len(normalizations)} times in reader.load. Pass "
            'normalize="none", or leave Normalization out of augment.'
        )
    return normalizations[0] if normalizations else None


def check_sizes(steps: Steps, options: ReadOptions, size: tuple[int | None, int | None]) -> None:
    """Checks that an image that is to be resized is cropped before, and no other one.

    Args:
        steps: The transforms.
        options: What the caller asked for.
        size: Size of the images that are not resized; Nones where sizes differ.

    Raises:
        UsageError: It is not.
    """
    has_crop = bool(steps.of("crop"))
    if has_crop and options.image_size is None:
        raise UsageError(
            f"augment={options.augment!r} crops images, but image_size is None in reader.load. "
            'Pass one, such as image_size=224, or augment="none".'
        )
    fixed = [type(item).__name__ for item in (*steps.of("resized"), *steps.of("batch"))]
    if fixed and None in size:
        raise UsageError(
            f"{', '.join(fixed)} in augment needs images of one size, but stored sizes differ and "
            "image_size is None in reader.load. Pass an image_size, such as image_size=224."
        )
    if not has_crop and options.image_size is not None:
        raise UsageError(
            f"augment={options.augment!r} does not begin with a crop, but there is an image_size "
            "in reader.load. Begin with center_crop or random_resized_crop, or leave image_size "
            "out."
        )
