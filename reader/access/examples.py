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
        image: [height, width, 3] uint8, RGB; bytes as stored where pictures are not decoded.
        text: str; bytes: bytes.
        class_label, int64: int; [n] int64 where the schema gives a shape.
        float32: float; [n] float32 where the schema gives a shape.

    Args:
        schema: Of the set.
        pictures: Whether pictures are decoded.
        where: The set, for messages.

    Raises:
        ShardSetError: Pictures have an encoding that this version does not know.
    """

    def __init__(self, schema: Schema, pictures: bool, where: object) -> None:
        self._features = schema.features
        self._pictures: dict[str, Callable[[bytes, Values], Any]] = {}
        if pictures:
            images = [feature for feature in schema.features if feature.kind == "image"]
            self._pictures = {image.name: _picture_decoder(image, where) for image in images}

    def __call__(self, serialized: bytes, where: str) -> Values:
        """The features of one record.

        Args:
            serialized: The example.
            where: It lies, for messages.

        Raises:
            DamageError: The bytes are no example of this schema.
        """
        try:
            stored = decode_example(serialized)
        except DamageError as error:
            raise DamageError(f"in {where}: {error}") from error
        values: Values = {}
        for feature in self._features:
            try:
                values[feature.name] = _value(feature, stored[feature.name])
            except (KeyError, ValueError) as error:
                raise DamageError(
                    f"a record must have {feature.kind} of shape {list(feature.shape)} as its "
                    f"feature {feature.name!r}, got {_found(error)} in {where}. Build the set "
                    "again."
                ) from error
        for name, decode in self._pictures.items():
            try:
                values[name] = decode(values[name], values)
            except (KeyError, ValueError) as error:
                raise DamageError(
                    f"a picture must be in the encoding of its set, got {len(values[name])} bytes "
                    f"that are not ({error}) in {where}. Build the set again."
                ) from error
        return values


def _picture_decoder(image: Feature, where: object) -> Callable[[bytes, Values], Any]:
    # Loaded here, so that sets of documents are read without OpenCV.
    from reader.access.numpy_decoders import PICTURES

    if image.encoding not in PICTURES:
        raise ShardSetError(
            f"the reader decodes {', '.join(PICTURES)}, got {image.encoding!r} as the encoding of "
            f"feature {image.name!r} in {where}. Pass decode=False, or install a version of "
            "shardmill that knows it."
        )
    return PICTURES[image.encoding]


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
