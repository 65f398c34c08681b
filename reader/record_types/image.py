"""Images with one label, any number of them, or none: parse, crop, decode, resize, transform."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import tensorflow as tf
from typing_extensions import override

from reader.options import ReadOptions, check_fits
from reader.record_types.base import OpenSplit, Parser, RecordParser
from reader.record_types.features import (
    FurtherFeatures,
    TargetLabels,
    find_feature,
    find_further,
    find_labels,
    record_target,
)
from reader.records.decoders import DECODERS, Crop, Decoder
from reader.records.split_index import SplitIndex
from reader.transforms import Example
from reader.transforms.augmentation import Steps, find_transforms
from reader.transforms.normalization import Normalization, find_normalization
from shard_format import Feature, ShardSetError, UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageParser(RecordParser):
    """Parses images.

    Input: a tf.train.Example with one image and its label or labels.
    Output: (image [height, width, 3] of `element_dtype`, target); the image alone where the set
    has no labels. The target is an int64, or [num_classes] float32 of zeros and ones. Where
    transforms mix the records of a batch, `finish` makes batches of this of what comes before.

    Attributes:
        image: Name of the feature with the image.
        decoder: Decoder of its encoding.
        labels: Features with the targets; none where there are no labels.
        further: Features that are handed out with the image.
        steps: Transforms of the augmentation, and the normalization.
        image_size: Height and width in pixels of every image; None does not resize.
        stored_size: Height and width of the stored images where all have the same, else Nones.
        dtype: "uint8" or "float32".
    """

    image: str
    decoder: Decoder
    labels: TargetLabels
    further: FurtherFeatures
    steps: Steps
    image_size: int | None
    stored_size: tuple[int | None, int | None]
    dtype: str

    @property
    @override
    def num_random(self) -> int:
        return self.steps.num_random

    @property
    @override
    def mixes(self) -> bool:
        return bool(self.steps.of("batch"))

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        # The crop is part of decoding, where it saves more than it costs.
        cropped = dataclasses.replace(self, steps=Steps(self.steps.of("crop")))
        return [("parse", _Undecoded(parser=self)), ("decode", cropped), ("augment", self)]

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        shape = self._image_shape
        for transform in self.steps.of("layout"):
            shape = transform.shape(shape)  # type: ignore[attr-defined]
        return shape

    @property
    def _image_shape(self) -> tuple[int | None, ...]:
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
    def targets(self) -> str:
        kind = self.labels.kind
        return "shares" if self.mixes and kind == "label" else kind

    @override
    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string -> {"image": [n] string, "label": [n] int64, ...}; labels are [n, ragged]."""
        wanted: dict[str, Any] = {self.image: tf.io.FixedLenFeature([], tf.string)}
        wanted |= {name: tf.io.FixedLenFeature([], tf.int64) for name in self.decoder.sides}
        wanted |= self.further.specs | self.labels.specs
        parsed = tf.io.parse_example(serialized, wanted)
        features = {"image": parsed[self.image]}
        features |= {name: parsed[name] for name in self.decoder.sides}
        if self.labels:
            features["label"] = self.labels.of(parsed)
        if self.further.features:  # by themselves, since they may have any name
            features["further"] = self.further.of(parsed)
        return features

    @property
    @override
    def boxes_many(self) -> bool:
        return any(getattr(crop, "many", False) for crop in self.steps.of("crop"))

    @override
    def boxed(self, features: dict[str, Any], sizes: Any, random: Any) -> dict[str, Any]:
        box = self.steps.apply("crop", {"size": sizes}, random)["box"]
        plan = self.decoder.plan
        return features | ({"box": box} if plan is None else plan(box, sizes))

    @override
    def decode(self, features: dict[str, Any], random: Any) -> Any:
        labels: Example = {}
        if self.labels:
            labels["label"] = self.labels.convert(record_target, features["label"])
        image = self.decoder.decode(features, self._crop(features, labels, random))
        example = self.steps.apply("decoded", {"image": image, **labels}, random)
        example["image"] = self._resize(example["image"])
        example = self.steps.apply("resized", example, random)
        image = example["image"]
        if self.element_dtype == "uint8":
            # Values are in [0, 255], so adding one half and cutting rounds to the nearest, in fewer
            # passes than tf.round and tf.saturate_cast.
            image = tf.cast(image + 0.5, tf.uint8)
        image.set_shape(self._image_shape)
        example["image"] = image
        # Batches of a quarter of the bytes where images are uint8, though they may be mixed.
        further = features.get("further", {})
        if self.mixes:
            return {**example, "random": random, "further": further}
        return self._finished(example, random, further)

    @override
    def finish(self, batch: dict[str, Any]) -> Any:
        example = {"image": batch["image"]}
        if self.labels:
            example["label"] = self.labels.convert(_shares, batch["label"])
        example = self.steps.apply("batch", example, batch["random"])
        return self._finished(example, batch["random"], batch["further"])

    def _finished(self, example: Example, random: Any, further: dict[str, Any]) -> Any:
        """What is the same for one image and for a batch: values, and the order of axes."""
        for stage in ("values", "layout"):
            example = self.steps.apply(stage, example, random)
        image = example["image"]
        leading = image.shape[: image.shape.rank - len(self.element_shape)]
        shape = tf.TensorShape([*leading, *self.element_shape])
        if not image.shape.is_compatible_with(shape):
            names = ", ".join(type(item).__name__ for item in self.steps.of("layout"))
            raise UsageError(
                f"{names} returned shape {image.shape}, not {shape} as its method shape says, in "
                "augment of reader.load. Correct one of them."
            )
        image.set_shape(shape)
        inputs = self.further.inputs(self.image, image, further)
        return (inputs, example["label"]) if self.labels else inputs

    def _crop(self, features: dict[str, Any], labels: Example, random: Any) -> Crop | None:
        """What the decoder asks for the box; None where nothing is cropped."""
        if "box" in features:
            return lambda size: features["box"]
        if not self.steps.of("crop"):
            return None
        return lambda size: self.steps.apply("crop", {"size": size, **labels}, random)["box"]

    def _resize(self, image: Any) -> Any:
        """[height, width, 3] uint8 -> [image_size, image_size, 3] float32, bilinear.

        The bare operation is what tf.image.resize comes to, less a dozen operations that inspect
        shapes in every call. It has no antialiasing (neither has the default of tf.image.resize):
        prepare images at about the size they are read at.
        """
        # It takes uint8 too, and gives the same numbers, but in twice the time.
        image = tf.cast(image, tf.float32)
        if self.image_size is None:
            # Decoders leave the size unknown to the graph, but warps need it there.
            image.set_shape(self._image_shape)
            return image
        size = [self.image_size, self.image_size]
        return tf.raw_ops.ResizeBilinear(images=image[None], size=size, half_pixel_centers=True)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Undecoded(RecordParser):
    """Images that are parsed only; an element is the size of the stored image."""

    parser: ImageParser

    element_shape = property(lambda self: ())
    element_dtype = property(lambda self: "int32")
    targets = property(lambda self: "none")

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        return [("parse", self)]

    @override
    def parse(self, serialized: Any) -> dict[str, Any]:
        return self.parser.parse(serialized)

    @override
    def decode(self, features: dict[str, Any], random: Any) -> Any:
        return tf.strings.length(features["image"])


def _shares(label: Feature, target: Any) -> Any:
    """[batch, num_classes] float32 of what `record_target` gives."""
    return target if label.shape else tf.one_hot(target, len(label.class_names))


def image_parser(split: OpenSplit, options: ReadOptions) -> ImageParser:
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
    return ImageParser(
        image=image.name,
        decoder=_decoder(image, split.where),
        labels=find_labels(split, options.label),
        further=find_further(split, options, (image.name,)),
        steps=steps,
        image_size=options.image_size,
        stored_size=stored,
        dtype=options.dtype,
        normalization=normalization_of(steps),
    )


def _decoder(image: Feature, where: Path) -> Decoder:
    if image.encoding not in DECODERS:
        raise ShardSetError(
            f"Feature {image.name!r} has the unknown encoding {image.encoding!r} in {where}. "
            f"Install a version of shardmill that knows it; this one decodes {', '.join(DECODERS)}."
        )
    return DECODERS[image.encoding]


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
