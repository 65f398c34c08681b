"""Labelled JPEG pictures: parse, decode only what is wanted, transform, resize."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from reader.options import ReadOptions
from reader.transforms import AUGMENTATIONS, TRANSFORMS, Transform
from shard_format import Schema, ShardSetError, UsageError


@dataclasses.dataclass(frozen=True)
class ImageRecords:
    """Records of type "image".

    Input: a tf.train.Example with one JPEG and one class label.
    Output: (picture [height, width, 3] of `dtype` in [0, 255], label int64).

    Attributes:
        image: Name of the feature with the JPEG.
        label: Name of the feature with the class.
        transforms: The first one decodes.
        image_size: Height and width in pixels of every picture; None does not resize.
        stored_size: Height and width of the stored pictures where all have the same, else Nones.
        dtype: "uint8" or "float32".
    """

    image: str
    label: str
    transforms: tuple[Transform, ...]
    image_size: int | None
    stored_size: tuple[int | None, int | None]
    dtype: str

    @property
    def num_random(self) -> int:
        """Random numbers that one record takes."""
        return sum(transform.num_random for transform in self.transforms)

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        """(height, width, 3)."""
        if self.image_size is not None:
            return (self.image_size, self.image_size, 3)
        return (*self.stored_size, 3)

    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string -> {"image": [n] string, "label": [n] int64}."""
        features = tf.io.parse_example(
            serialized,
            {
                self.image: tf.io.FixedLenFeature([], tf.string),
                self.label: tf.io.FixedLenFeature([], tf.int64),
            },
        )
        return {"image": features[self.image], "label": features[self.label]}

    def decode(self, features: dict[str, Any], random: Any) -> tuple[Any, Any]:
        """One record's {"image": string, "label": int64} and [num_random] float32 -> element."""
        image, used = features["image"], 0
        for transform in self.transforms:
            if transform.stage == "resized" and image.dtype != tf.float32:
                image = self._resize(image)
            numbers = random[used : used + transform.num_random]
            image = transform.apply(image, numbers)
            used += transform.num_random
        if image.dtype != tf.float32:
            image = self._resize(image)
        image = self._to_dtype(image)
        image.set_shape(self.element_shape)
        return image, features["label"]

    def _resize(self, image: Any) -> Any:
        """[height, width, 3] uint8 -> [image_size, image_size, 3] float32, bilinear.

        The bare operation is what tf.image.resize comes to, less a dozen operations that inspect
        shapes in every call. It has no antialiasing (neither has the default of tf.image.resize):
        prepare pictures at about the size they are read at.
        """
        if self.image_size is None:
            return tf.cast(image, tf.float32)
        size = [self.image_size, self.image_size]
        return tf.raw_ops.ResizeBilinear(images=image[None], size=size, half_pixel_centers=True)[0]

    def _to_dtype(self, image: Any) -> Any:
        if self.dtype == "float32":
            return image
        # Values lie in [0, 255], so adding one half and cutting rounds to the nearest, in fewer
        # passes than tf.round and tf.saturate_cast.
        return tf.cast(image + 0.5, tf.uint8)


def image_records(
    schema: Schema, index: pa.Table, options: ReadOptions, where: Path
) -> ImageRecords:
    """The image record type of one split.

    Args:
        schema: Has one feature of kind image and one of kind class_label.
        index: The split's index; its columns width and height are used where there is no resize.
        options: What the caller asked for.
        where: The index file, for messages.

    Raises:
        ShardSetError: The schema lacks a feature, or a record has no label.
        UsageError: The pictures differ in size and are not to be resized.
    """
    image, label = _feature(schema, "image", where), _feature(schema, "class_label", where)
    if schema[image].encoding != "jpeg":
        raise ShardSetError(
            f"the reader decodes jpeg, got {schema[image].encoding!r} as the encoding of feature "
            f"{image!r} for {where}. Build the set again with JPEG pictures."
        )
    if index["label"].null_count:
        raise ShardSetError(
            f"every record must have a label, got {index['label'].null_count} without one in "
            f"{where}. Build the set again from a source with labels."
        )
    names = AUGMENTATIONS[options.augment]
    stored: tuple[int | None, int | None] = (None, None)
    if options.image_size is None:
        stored = _stored_size(index, options.batch_size, where)
        names = ("whole",)
    return ImageRecords(
        image=image,
        label=label,
        transforms=tuple(TRANSFORMS[name] for name in names),
        image_size=options.image_size,
        stored_size=stored,
        dtype=options.dtype,
    )


def _feature(schema: Schema, kind: str, where: Path) -> str:
    for feature in schema.features:
        if feature.kind == kind:
            return feature.name
    found = ", ".join(f"{feature.name} ({feature.kind})" for feature in schema.features)
    raise ShardSetError(
        f"image records need a feature of kind {kind}, got {found or 'none'} for {where}. "
        "Build the set again with one."
    )


def _stored_size(index: pa.Table, batch_size: int, where: Path) -> tuple[int | None, int | None]:
    """(height, width) that all pictures have, or Nones where a batch is a single picture."""
    if {"height", "width"} <= set(index.column_names):
        limits = [pc.min_max(index[name]).as_py() for name in ("height", "width")]
        if all(limit["min"] == limit["max"] for limit in limits):
            return limits[0]["min"], limits[1]["min"]
        found = " and ".join(
            f"{name}s of {limit['min']} to {limit['max']}"
            for name, limit in zip(("height", "width"), limits, strict=True)
        )
    else:
        found = "an index that does not tell"
    if batch_size == 1:
        return None, None
    raise UsageError(
        f"image_size=None needs pictures of one size, got {found} in {where}. "
        "Give an image_size, or pass batch_size=1."
    )
