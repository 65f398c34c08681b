"""From a serialized tf.train.Example to Python and NumPy values, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from shard_format import DamageError, Feature, Schema, ShardSetError, decode_example

Values = dict[str, Any]

_NUMBERS = {"int64": np.int64, "class_label": np.int64, "float32": np.float32}
_STORED = {"bytes_list": bytes, "int64_list": int, "float_list": float}


class ExampleDecoder:
    """Decodes the records of one set.

    Input: a serialized tf.train.Example.
    Output: a dictionary with every feature of the schema, in its order:
        image: [height, width, 3] uint8, RGB; bytes as stored where images are not decoded.
        text: str; bytes: bytes.
        class_label, int64: int; [n] int64 where the schema gives a shape.
        float32: float; [n] float32 where the schema gives a shape.

    Args:
        schema: Schema of the set.
        decode_images: Whether images are decoded.
        where: The set, for messages.

    Raises:
        ShardSetError: Images have an encoding that this version does not know.
    """

    def __init__(self, schema: Schema, decode_images: bool, where: object) -> None:
        self._features = schema.features
        self._image_decoders: dict[str, Callable[[bytes, Values], Any]] = {}
        if decode_images:
            images = [feature for feature in schema.features if feature.kind == "image"]
            self._image_decoders = {image.name: _image_decoder(image, where) for image in images}

    def __call__(self, serialized: bytes, where: object) -> Values:
        """The features of one record.

        Args:
            serialized: The example.
            where: Its place, for messages.

        Raises:
            DamageError: The bytes are no example of this schema.
        """
        try:
            stored = decode_example(serialized)
        except DamageError as error:
            raise DamageError(f"Damaged record in {where}: {error}") from error
        values: Values = {}
        for feature in self._features:
            try:
                values[feature.name] = _value(feature, stored[feature.name])
            except (KeyError, ValueError) as error:
                raise DamageError(
                    f"Feature {feature.name!r} is not {feature.kind} of shape "
                    f"{list(feature.shape)}: found {_found(error)} in {where}. Build the set again."
                ) from error
        for name, decode in self._image_decoders.items():
            try:
                values[name] = decode(values[name], values)
            except (KeyError, ValueError) as error:
                raise DamageError(
                    f"{len(values[name])} bytes of feature {name!r} are not an image ({error}) in "
                    f"{where}. Build the set again."
                ) from error
        return values


def _image_decoder(image: Feature, where: object) -> Callable[[bytes, Values], Any]:
    # Loaded here, so that sets of documents are read without OpenCV.
    from reader.access.numpy_decoders import NUMPY_DECODERS

    if image.encoding not in NUMPY_DECODERS:
        raise ShardSetError(
            f"Feature {image.name!r} has the unknown encoding {image.encoding!r} in {where}. Pass "
            f"decode=False, or install a version of shardmill that knows it. This one decodes "
            f"{', '.join(NUMPY_DECODERS)}."
        )
    return NUMPY_DECODERS[image.encoding]


def _value(feature: Feature, stored: Any) -> Any:
    if not all(isinstance(item, _STORED[feature.storage]) for item in stored[:1]):
        raise ValueError(f"{type(stored[0]).__name__}")
    single = feature.kind == "image" or not feature.shape
    if single and len(stored) != 1:
        raise ValueError(f"{len(stored)} values")
    if not single and feature.kind in _NUMBERS:
        return np.array(stored, _NUMBERS[feature.kind]).reshape(feature.shape)
    if feature.kind == "text":
        stored = [item.decode() for item in stored]
    return stored[0] if single else stored


def _found(error: Exception) -> str:
    return "none" if isinstance(error, KeyError) else str(error)
