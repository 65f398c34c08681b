"""Images of a record as files of their own."""

from __future__ import annotations

import io

import numpy as np

from reader.access.examples import Values
from shard_format import Feature

_ENDINGS = {"jpeg": "jpg", "png": "png", "webp": "webp", "raw": "npy"}
_PNG = b"\x89PNG"


def ending_of(feature: Feature, value: bytes) -> str:
    """The ending of the name of a file with an image; pixels are an array of NumPy."""
    return _ENDINGS.get(feature.encoding) or ("png" if value[:4] == _PNG else "jpg")


def as_file(feature: Feature, value: bytes, values: Values) -> bytes:
    """The content of that file: the image as it is stored, and of pixels an array.

    Args:
        feature: The feature.
        value: The image as it is stored.
        values: The record, which has the sides of pixels.
    """
    if feature.encoding != "raw":
        return value
    pixels = np.frombuffer(value, np.uint8).reshape(values["height"], values["width"], 3)
    content = io.BytesIO()
    np.lib.format.write_array(content, pixels, allow_pickle=False)
    return content.getvalue()
