"""From a serialized tf.train.Example to Python and NumPy values, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shard_format import DamageError, Feature, Schema, ShardSetError, decode_example
from shard_format.feature_values import from_stored

Values = dict[str, Any]


class ExampleDecoder:
    """Decodes the records of one set.

    Input: a serialized tf.train.Example.
    Output: a dictionary with every feature of the schema, in its order; a "/" in names makes
        dictionaries of their own:
        image: [height, width, channels] uint8, RGB or gray; bytes as stored where images are not
            decoded.
        text: str; bytes: bytes.
        class_label: int; numbers: bool, int or float.
        With a shape, an array of it; several texts or images are a list, as are lists of lists.

    Args:
        schema: Schema of the set.
        decode_images: Whether images are decoded.
        where: The set, for messages.

    Raises:
        ShardSetError: Images have an encoding that this version does not know.
    """

    def __init__(self, schema: Schema, decode_images: bool, where: object) -> None:
        self._schema = schema
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
        for feature in self._schema.features:
            try:
                parts = [stored[part.name] for part in feature.stored]
                values[feature.name] = from_stored(feature, parts)
            except (KeyError, ValueError) as error:
                raise DamageError(
                    f"Feature {feature.name!r} is not {feature.kind} of shape "
                    f"{list(feature.shape)}: found {_found(error)} in {where}. Build the set again."
                ) from error
        for name, decode in self._image_decoders.items():
            values[name] = self._decoded(decode, name, values, where)
        return self._nested(values)

    def _decoded(
        self, decode: Callable[[bytes, Values], Any], name: str, values: Values, where: object
    ) -> Any:
        data = values[name]
        several = data if isinstance(data, list) else [data]
        try:
            images = [decode(one, values) for one in several]
        except (KeyError, ValueError) as error:
            raise DamageError(
                f"{sum(map(len, several))} bytes of feature {name!r} are not an image ({error}) in "
                f"{where}. Build the set again."
            ) from error
        return images if several is data else images[0]

    def _nested(self, values: Values) -> Values:
        tree: Values = {}
        for name, value in values.items():
            *groups, last = self._schema.paths[name]
            inside = tree
            for group in groups:
                inside = inside.setdefault(group, {})
            inside[last] = value
        return tree


def _image_decoder(image: Feature, where: object) -> Callable[[bytes, Values], Any]:
    # Loaded here, so that sets of documents are read without OpenCV.
    from reader.access.numpy_decoders import NUMPY_DECODERS, decode_unchanged

    if not image.encoding or image.shape[-1:] != (3,):  # JPEG or PNG, with any channels
        return lambda data, values: decode_unchanged(data)
    if image.encoding not in NUMPY_DECODERS:
        raise ShardSetError(
            f"Feature {image.name!r} has the unknown encoding {image.encoding!r} in {where}. Pass "
            f"decode=False, or install a version of shardmill that knows it. This one decodes "
            f"{', '.join(NUMPY_DECODERS)}."
        )
    return NUMPY_DECODERS[image.encoding]


def _found(error: Exception) -> str:
    return "none" if isinstance(error, KeyError) else str(error)
