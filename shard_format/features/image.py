"""Encoded images; masks are images of one channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from shard_format.features.base import FeatureKind, Json, described, dimensions
from shard_format.features.text import Bytes, opaque_bytes

# That its Image feature decodes, which goes by their content: "" is either.
_TFDS_ENCODINGS = {"jpeg": "jpeg", "png": "png", "": "png"}


class Image(FeatureKind):
    """The bytes of an image, whose shape is [height, width, channels] uint8."""

    storage = "bytes_list"
    value_shape = (-1, -1, -1)

    @override
    def checked(self, value: Any, shape: Sequence[int]) -> bytes:
        return Bytes().checked(value, ())

    @override
    def tfds(self, shape: Sequence[int], encoding: str, class_names: Sequence[str]) -> Json:
        if encoding not in _TFDS_ENCODINGS:
            return opaque_bytes()
        *sides, channels = shape
        image = {
            "shape": dimensions([*sides, 3 if channels < 0 else channels]),  # TFDS makes them RGB
            "dtype": "uint8",
            "encodingFormat": _TFDS_ENCODINGS[encoding],
        }
        return described("image_feature", "Image", image=image)
