"""Bytes of a picture to a small picture of our own: bounded, and never trusted.

No byte of a record or a refused file reaches the page: what is shown was decoded here and encoded
again.
"""

from __future__ import annotations

import base64
import io

import numpy as np
import simplejpeg
from PIL import Image

from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.decode.pillow import PILLOW_FORMATS
from beam_jobs.report.markup import DataUri

THUMBNAIL_SIDE = 96  # pixels
_QUALITY = 70
# A refused file may be made to be slow. 16 megapixels of a progressive JPEG take about a second.
_MOST_PIXELS = 16_000_000


def decode_thumbnail(data: bytes, most_pixels: int) -> Pixels:
    """The first frame of an encoded picture as a thumbnail, [height, width, 3] RGB.

    Args:
        data: The encoded picture.
        most_pixels: What it may declare.

    Raises:
        Exception: Whatever Pillow's parsers raise; and ValueError for too many pixels.
    """
    with Image.open(io.BytesIO(data), formats=PILLOW_FORMATS) as image:
        width, height = image.size
        if width * height > most_pixels:
            raise ValueError(f"it declares {width} x {height} pixels")
        # A JPEG is decoded at a half, a quarter or an eighth: several times faster.
        image.draft("RGB", (2 * THUMBNAIL_SIDE, 2 * THUMBNAIL_SIDE))
        if not image.has_transparency_data:
            return np.asarray(shrunk(image.convert("RGB")))
        small = shrunk(image.convert("RGBA"))
        white = Image.new("RGBA", small.size, "white")
        return np.asarray(Image.alpha_composite(white, small).convert("RGB"))


def shrunk(image: Image.Image) -> Image.Image:
    """A copy that fits into the square of a thumbnail; a smaller picture stays as it is."""
    copy = image.copy()
    copy.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.BOX)
    return copy


def preview(data: bytes | None) -> DataUri | None:
    """A thumbnail of bytes that nobody vouches for, or None if none can be made."""
    if not data:
        return None
    for decode in (_with_pillow, _damaged_jpeg):
        try:
            return encode(decode(data))
        except Exception:  # A damaged file may raise anything inside the parsers.
            continue
    return None


def _with_pillow(data: bytes) -> Pixels:
    return decode_thumbnail(data, _MOST_PIXELS)


def _damaged_jpeg(data: bytes) -> Pixels:
    """What libjpeg can still make of a JPEG that is cut off or has wrong bytes."""
    height, width, _, _ = simplejpeg.decode_jpeg_header(data, strict=False)
    if width * height > _MOST_PIXELS:
        raise ValueError(f"it declares {width} x {height} pixels")
    side = min(THUMBNAIL_SIDE, height, width)
    pixels = simplejpeg.decode_jpeg(data, "RGB", min_height=side, min_width=side, strict=False)
    return np.asarray(shrunk(Image.fromarray(pixels)))


def encode(pixels: Pixels) -> DataUri:
    """Pixels as a data: URI."""
    encoded = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels), quality=_QUALITY, colorspace="RGB", colorsubsampling="420"
    )
    return DataUri(f"data:image/jpeg;base64,{base64.b64encode(encoded).decode()}")


def hex_lines(data: bytes, count: int = 16) -> str:
    """The first bytes of data in hex, for those that are no picture."""
    return data[:count].hex(" ") + (" ..." if len(data) > count else "")
