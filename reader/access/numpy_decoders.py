"""From stored bytes to pixels in NumPy: one function for each encoding that a schema may name.

The pixels are, bit for bit, those that `reader.graph.decoders` gives without a crop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg

Pixels = npt.NDArray[np.uint8]  # [height, width, 3], RGB


def decode_jpeg(data: bytes | memoryview, features: dict[str, Any]) -> Pixels:
    """A JPEG; gray ones become RGB."""
    # The fast DCT is TensorFlow's default: a record has the same pixels, whoever reads it.
    return simplejpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=False)


def decode_with_opencv(data: bytes | memoryview, features: dict[str, Any]) -> Pixels:
    """A PNG or a WebP."""
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:  # no bytes at all, or more pixels than OpenCV allows
        raise ValueError(error.err) from error
    if pixels is None:
        raise ValueError("OpenCV cannot decode it")
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB, dst=pixels)


def decode_unchanged(data: bytes | memoryview) -> Pixels:
    """[height, width, channels] uint8 of a JPEG or PNG with its own channels: a mask has one.

    Raises:
        ValueError: It is damaged, or has more than 8 bits a channel.
    """
    flags = cv2.IMREAD_UNCHANGED | cv2.IMREAD_IGNORE_ORIENTATION
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise ValueError(error.err) from error
    if pixels is None or pixels.dtype != np.uint8:
        raise ValueError(f"an image of {getattr(pixels, 'dtype', 'no known encoding')}")
    if pixels.ndim == 2:
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, [2, 1, 0, 3][: pixels.shape[2]]])


def decode_raw(data: bytes | memoryview, features: dict[str, Any]) -> Pixels:
    """The pixels themselves, as a copy: an array over `bytes` could not be written to."""
    shape = (features["height"], features["width"], 3)
    return np.frombuffer(data, np.uint8).reshape(shape).copy()


# Each: (stored bytes, the other features of the record) -> pixels; ValueError if there are none.
NUMPY_DECODERS: dict[str, Callable[[bytes | memoryview, dict[str, Any]], Pixels]] = {
    "jpeg": decode_jpeg,
    "png": decode_with_opencv,
    "webp": decode_with_opencv,
    "raw": decode_raw,
}
