"""Bytes of any picture to upright, opaque 8-bit sRGB, or a reason why not.

JPEG goes to libjpeg-turbo, everything else to Pillow, by content and never by name. Each format has
one decoder, so a picture has one meaning; OpenCV only resizes.
"""

from __future__ import annotations

from beam_jobs.corpus.record import Rejection
from beam_jobs.images.decoding_options import DecodingOptions
from beam_jobs.images.jpeg import decode_jpeg
from beam_jobs.images.other_formats import decode_with_pillow
from beam_jobs.images.picture import Picture, Pixels
from beam_jobs.images.time_limit import within

_JPEG = b"\xff\xd8"


def decode_image(data: bytes, options: DecodingOptions) -> Picture:
    """The picture in the data.

    Args:
        data: The whole file.
        options: What may be decoded, and how what has no one meaning is read.

    Raises:
        Rejection: The data are empty, no picture, damaged, too large, too slow, or of a kind with
            no clear RGB.
    """
    if not data:
        raise Rejection("empty-file", "the file has no bytes")
    if data.startswith(_JPEG):
        picture = decode_jpeg(data, options)
        if picture is not None:
            return picture
    return within(options.time_limit, lambda: decode_with_pillow(data, options))


__all__ = ["DecodingOptions", "Picture", "Pixels", "decode_image"]
