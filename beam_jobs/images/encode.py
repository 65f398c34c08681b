"""RGB pixels to the bytes that a shard stores, by the value of --encoding, and back to pixels.

Every encoder returns the same bytes on every x86-64 CPU: docs/decisions/0005-same-bytes.md.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.resize import Resize, resize_image

# Of OpenCV's strategies and filters at level 1, on photographs of 256 x 342: this one took 2.5 ms
# and 114 kB, its default 4.2 ms and 118 kB, Pillow (without a choice of filters) 4.7 ms and 118 kB;
# level 6 of Pillow took 16 ms for 110 kB. Besides, OpenCV's wheel has the plain zlib, and Pillow's
# has zlib-ng, whose matching has differed by CPU before.
_PNG = (
    *(cv2.IMWRITE_PNG_COMPRESSION, 1),
    *(cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_DEFAULT),
    *(cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_UP),
)
# On the same photographs: method 0 2.7 ms and 18.2 kB, 2 3.7 ms and 17.0 kB, 4 (the default, and
# the only one of OpenCV) 7.8 ms and 16.9 kB.
_WEBP_METHOD = 2
_WEBP_MAX_SIDE = 16_383  # WEBP_MAX_DIMENSION: 14 bits in the format

_PREVIEW = Resize("fit", 128, 128)
_PREVIEW_QUALITY = 75


def encode_jpeg(image: Pixels, quality: int) -> bytes:
    """A baseline JPEG with 4:2:0 chroma, as cameras write it.

    Args:
        image: [height, width, 3] uint8, RGB, sides in [1, 65500].
        quality: libjpeg's scale, 1 to 100.
    """
    encoded: bytes = simplejpeg.encode_jpeg(
        image, quality=quality, colorspace="RGB", colorsubsampling="420", fastdct=False
    )
    return encoded


def encode_png(image: Pixels, quality: int) -> bytes:
    """A PNG in 8-bit RGB, lossless.

    Args:
        image: [height, width, 3] uint8, RGB.
        quality: Ignored.
    """
    done, encoded = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), _PNG)
    if not done:
        raise MemoryError("OpenCV could not encode a PNG")
    return bytes(encoded)


def encode_webp(image: Pixels, quality: int) -> bytes:
    """A lossy WebP.

    Args:
        image: [height, width, 3] uint8, RGB.
        quality: libwebp's scale, 1 to 100.

    Raises:
        Rejection: A side is too long for the format.
    """
    height, width = image.shape[:2]
    if max(height, width) > _WEBP_MAX_SIDE:
        raise Rejection(
            "too-large-resized",
            f"it would be {width} x {height} pixels after --resize; a WebP holds {_WEBP_MAX_SIDE} "
            "a side",
        )
    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=quality, method=_WEBP_METHOD)
    return file.getvalue()


def encode_raw(image: Pixels, quality: int) -> bytes:
    """The pixels themselves, row by row.

    Args:
        image: [height, width, 3] uint8, RGB.
        quality: Ignored.
    """
    return np.ascontiguousarray(image).tobytes()


ENCODERS: dict[str, Callable[[Pixels, int], bytes]] = {
    "jpeg": encode_jpeg,
    "png": encode_png,
    "webp": encode_webp,
    "raw": encode_raw,
}


def decode_jpeg_strictly(data: bytes) -> Pixels:
    """The pixels of a stored JPEG, [height, width, 3] uint8 RGB.

    Raises:
        ValueError: It is damaged.
    """
    pixels: Pixels = simplejpeg.decode_jpeg(
        data, "RGB", fastdct=False, fastupsample=False, strict=True
    )
    return pixels


def decode_stored(example: Mapping[str, Any], encoding: str) -> Pixels:
    """The pixels of an example, [height, width, 3] uint8 RGB.

    Args:
        example: Values by feature, as `shard_format.decode_example` gives them.
        encoding: Encoding of its feature "image".
    """
    data = bytes(example["image"][0])
    if encoding == "jpeg":
        return decode_jpeg_strictly(data)
    if encoding == "raw":
        size = int(example["height"][0]), int(example["width"][0])
        return np.frombuffer(data, np.uint8).reshape(*size, 3)
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def preview(pixels: Pixels) -> bytes:
    """A small JPEG to show to people, the same on every CPU.

    Args:
        pixels: [height, width, 3] uint8, RGB.
    """
    height, width = pixels.shape[:2]
    if max(height, width) > _PREVIEW.width:
        pixels = resize_image(pixels, _PREVIEW, height * width)
    return encode_jpeg(np.ascontiguousarray(pixels), _PREVIEW_QUALITY)
