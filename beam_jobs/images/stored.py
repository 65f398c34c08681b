"""Pictures as a shard holds them, back to pixels."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.images.encode import encode_jpeg
from beam_jobs.images.picture import Pixels
from beam_jobs.images.resize import Resize, resize_image

_PREVIEW = Resize("fit", 128, 128)
_PREVIEW_QUALITY = 75


def decode_kept(data: bytes) -> Pixels:
    """A stored JPEG, [height, width, 3] uint8 RGB.

    Raises:
        ValueError: It is damaged.
    """
    pixels: Pixels = simplejpeg.decode_jpeg(
        data, "RGB", fastdct=False, fastupsample=False, strict=True
    )
    return pixels


def decode_stored(example: Mapping[str, Any], encoding: str) -> Pixels:
    """The picture of an example, [height, width, 3] uint8 RGB.

    Args:
        example: Values by feature, as `shard_format.decode_example` gives them.
        encoding: Of its feature "image".
    """
    data = bytes(example["image"][0])
    if encoding == "jpeg":
        return decode_kept(data)
    if encoding == "raw":
        size = int(example["height"][0]), int(example["width"][0])
        return np.frombuffer(data, np.uint8).reshape(*size, 3)
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def preview(pixels: Pixels) -> bytes:
    """A small JPEG for people, the same on every CPU.

    Args:
        pixels: [height, width, 3] uint8, RGB.
    """
    height, width = pixels.shape[:2]
    if max(height, width) > _PREVIEW.width:
        pixels = resize_image(pixels, _PREVIEW, height * width)
    return encode_jpeg(np.ascontiguousarray(pixels), _PREVIEW_QUALITY)
