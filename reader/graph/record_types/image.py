"""Images with one label, any number of them, or none: parse, crop, decode, resize, transform."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.decoders import DECODERS, Crop, Decoder, pixels_decoder
from reader.graph.features import further_specs, further_values, label_specs, record_target
from reader.graph.record_types.base import GraphParser, RecordParser
from reader.graph.record_types.encoded import GraphEncodedImageParser
from reader.record_types.encoded import EncodedImageParser
from reader.record_types.image import ImageParser
from reader.transforms import Example
from shard_format import Feature, UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphImageParser(RecordParser):
    """Parses images.

    Input: a tf.train.Example with one image and its label or labels.
    Output: (image [height, width, 3] of `element_dtype`, target); the image alone where the set
    has no labels. The target is an int64, or [num_classes] float32 of zeros and ones. Where
    transforms mix the records of a batch, `finish` makes batches of this of what comes before.

    Attributes:
        like: The parser in NumPy that gives the same elements.
        decoder: Decoder of the encoding of the images.
    """

    like: ImageParser
    decoder: Decoder

    @property
    @override
    def num_random(self) -> int:
        return self.like.steps.num_random

    @property
    @override
    def mixes(self) -> bool:
        return self.like.mixes

    def __post_init__(self) -> None:
        if self.like.further.moved is not None:
            raise UsageError(
                "Objects and masks follow images only without TensorFlow: leave them out of "
                "features, or service, mixtures and transforms in TensorFlow, in reader.load."
            )

    @override
    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string -> {"image": [n] string, "label": [n] int64, ...}; labels are [n, ragged]."""
        wanted: dict[str, Any] = {self.like.image.name: tf.io.FixedLenFeature([], tf.string)}
        wanted |= {name: tf.io.FixedLenFeature([], tf.int64) for name in self.decoder.sides}
        wanted |= further_specs(self.like.further) | label_specs(self.like.labels)
        parsed = tf.io.parse_example(serialized, wanted)
        features = {"image": parsed[self.like.image.name]}
        features |= {name: parsed[name] for name in self.decoder.sides}
        if self.like.labels:
            features["label"] = self.like.labels.of(parsed)
        if self.like.further.features:  # by themselves, since they may have any name
            features["further"] = further_values(self.like.further, parsed)
        return features

    @property
    @override
    def boxes_many(self) -> bool:
        return any(getattr(crop, "many", False) for crop in self.like.steps.of("crop"))

    @override
    def boxed(self, features: dict[str, Any], sizes: Any, random: Any) -> dict[str, Any]:
        box = self.like.steps.apply("crop", {"size": sizes}, random)["box"]
        plan = self.decoder.plan
        return features | ({"box": box} if plan is None else plan(box, sizes))

    @override
    def decode(self, features: dict[str, Any], random: Any) -> Any:
        labels: Example = {}
        if self.like.labels:
            labels["label"] = self.like.labels.convert(record_target, features["label"])
        image = self.decoder.decode(features, self._crop(features, labels, random))
        example = self.like.steps.apply("decoded", {"image": image, **labels}, random)
        example["image"] = self._resize(example["image"])
        example = self.like.steps.apply("resized", example, random)
        image = example["image"]
        if self.like.element_dtype == "uint8":
            # Values are in [0, 255], so adding one half and cutting rounds to the nearest, in fewer
            # passes than tf.round and tf.saturate_cast.
            image = tf.cast(image + 0.5, tf.uint8)
        image.set_shape(self.like.image_shape)
        example["image"] = image
        # Batches of a quarter of the bytes where images are uint8, though they may be mixed.
        further = features.get("further", {})
        if self.mixes:
            return {**example, "random": random, "further": further}
        return self._finished(example, random, further)

    @override
    def finish(self, batch: dict[str, Any]) -> Any:
        example = {"image": batch["image"]}
        if self.like.labels:
            example["label"] = self.like.labels.convert(_shares, batch["label"])
        example = self.like.steps.apply("batch", example, batch["random"])
        return self._finished(example, batch["random"], batch["further"])

    def _finished(self, example: Example, random: Any, further: dict[str, Any]) -> Any:
        """What is the same for one image and for a batch: values, and the order of axes."""
        for stage in ("values", "layout"):
            example = self.like.steps.apply(stage, example, random)
        image = example["image"]
        leading = image.shape[: image.shape.rank - len(self.like.element_shape)]
        shape = tf.TensorShape([*leading, *self.like.element_shape])
        if not image.shape.is_compatible_with(shape):
            names = ", ".join(type(item).__name__ for item in self.like.steps.of("layout"))
            raise UsageError(
                f"{names} returned shape {image.shape}, not {shape} as its method shape says, in "
                "augment of reader.load. Correct one of them."
            )
        image.set_shape(shape)
        return self.like.element(image, further, example.get("label"))

    def _crop(self, features: dict[str, Any], labels: Example, random: Any) -> Crop | None:
        """What the decoder asks for the box; None where nothing is cropped."""
        if "box" in features:
            return lambda size: features["box"]
        if not self.like.steps.of("crop"):
            return None
        return lambda size: self.like.steps.apply("crop", {"size": size, **labels}, random)["box"]

    def _resize(self, image: Any) -> Any:
        """[height, width, 3] uint8 -> [image_size, image_size, 3] float32, bilinear.

        The bare operation is what tf.image.resize comes to, less a dozen operations that inspect
        shapes in every call. It has no antialiasing (neither has the default of tf.image.resize):
        prepare images at about the size they are read at.
        """
        # It takes uint8 too, and gives the same numbers, but in twice the time.
        image = tf.cast(image, tf.float32)
        if self.like.image_size is None:
            # Decoders leave the size unknown to the graph, but warps need it there.
            image.set_shape(self.like.image_shape)
            return image
        size = [self.like.image_size, self.like.image_size]
        return tf.raw_ops.ResizeBilinear(images=image[None], size=size, half_pixel_centers=True)[0]


def _shares(label: Feature, target: Any) -> Any:
    """[batch, num_classes] float32 of what `record_target` gives."""
    return target if label.shape else tf.one_hot(target, len(label.class_names))


def image_parser(parser: ImageParser | EncodedImageParser) -> GraphParser:
    """The parser of a graph that does what one in NumPy does."""
    if isinstance(parser, EncodedImageParser):
        return GraphEncodedImageParser(like=parser)
    return decoding_parser(parser)


def decoding_parser(parser: ImageParser) -> GraphImageParser:
    """That of decoded images."""
    if parser.pixels is not None:
        decoder = pixels_decoder(parser.pixels)
    else:
        decoder = DECODERS[parser.image.encoding]
    return GraphImageParser(like=parser, decoder=decoder)
