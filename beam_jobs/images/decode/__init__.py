"""Bytes of any image to upright, opaque 8-bit sRGB, or the reason why not.

JPEG is decoded by libjpeg-turbo (`jpeg`), everything else by Pillow (`pillow`), by content and
never by name. Each format has one decoder, so that a file has one meaning; OpenCV only resizes.
"""

from __future__ import annotations

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decode.base import DecodedImage, DecodingOptions, Pixels
from beam_jobs.images.decode.jpeg import decode_jpeg
from beam_jobs.images.decode.pillow import decode_with_pillow
from beam_jobs.images.decode.time_limit import within

_JPEG = b"\xff\xd8"


def decode_image(data: bytes, options: DecodingOptions) -> DecodedImage:
    """Decodes an image file to sRGB; see `decode_unconverted`."""
    return decode_unconverted(data, options).in_srgb()


def decode_unconverted(data: bytes, options: DecodingOptions) -> DecodedImage:
    """Decodes an image file, and leaves it to the caller to convert its colours.

    Args:
        data: The whole file.
        options: What may be decoded, and how ambiguous files are read.

    Raises:
        Rejection: The data are empty, not an image, damaged, too large, too slow, or of a kind
            without a clear RGB.
    """
    if not data:
        raise Rejection("empty-file", "the file has no bytes")
    if data.startswith(_JPEG):
        image = decode_jpeg(data, options)
        if image is not None:
            return image
    return within(options.time_limit, lambda: decode_with_pillow(data, options))


__all__ = ["DecodedImage", "DecodingOptions", "Pixels", "decode_image", "decode_unconverted"]
