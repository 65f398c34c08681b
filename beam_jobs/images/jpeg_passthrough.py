"""JPEG files whose bytes can be stored unchanged: `--quality keep`.

The header of a file shows whether it needs a change. A file without a change is decoded too, at an
eighth of its size: libjpeg-turbo then reads every coded bit, and so finds the damage that a full
decode finds, but computes a 64th of the pixels.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import simplejpeg

from beam_jobs.images.colour import is_srgb
from beam_jobs.images.decode.base import Pixels
from beam_jobs.images.decode.jpeg import PLAIN_CODINGS, count_scans, read_jpeg_header
from beam_jobs.images.decode.orientation import ORIENTATION_TAG

_SHORT = 3  # a type of Exif values
_EXIF = b"Exif\0\0"
# Real files have about 10. A file with thousands would take the reader minutes in every epoch.
_MAX_SCANS = 100
_MODES = {"YCbCr": "RGB", "Gray": "L", "GRAY": "L"}


def needs_no_change(data: bytes) -> tuple[int, int] | None:
    """(width, height) of a JPEG that is upright 8-bit YCbCr or gray in sRGB already, else None.

    It reads the header only; see `shrunk` for the pixels.
    """
    header = read_jpeg_header(data) if data.startswith(b"\xff\xd8\xff") else None
    # TensorFlow does not decode other codings (lossless, arithmetic).
    if header is None or header.coding not in PLAIN_CODINGS or header.precision != 8:
        return None
    if count_scans(data, header) > _MAX_SCANS:
        return None
    if header.exif is not None and _orientation(header.exif.removeprefix(_EXIF)) != 1:
        return None
    try:
        # By libjpeg-turbo's own rules for the colour space of three components.
        height, width, colour, _ = simplejpeg.decode_jpeg_header(data)
    except (ValueError, KeyError):  # KeyError: a subsampling that simplejpeg has no name for
        return None
    mode = _MODES.get(colour)
    if mode is None or not is_srgb(header.icc, mode):
        return None
    return width, height


def shrunk(data: bytes) -> Pixels:
    """A JPEG at an eighth of its size: [ceil(height / 8), ceil(width / 8), 3] uint8, RGB.

    Raises:
        ValueError: libjpeg-turbo has an error or a warning, the same as in a full strict decode.
    """
    # Without lower bounds, simplejpeg takes the smallest scale.
    pixels: Pixels = simplejpeg.decode_jpeg(
        data,
        "RGB",
        fastdct=False,
        fastupsample=False,
        min_height=1,
        min_width=1,
        min_factor=1,
        strict=True,
    )
    return pixels


def pixels_hash(width: int, height: int, pixels: Pixels) -> bytes:
    """16 bytes: half of the SHA-256 over width and height (int64, little-endian) and pixels.

    Args:
        width: Width of the stored image.
        height: Height of the stored image.
        pixels: An array of any shape: all of them, or those of `shrunk`.
    """
    digest = hashlib.sha256(struct.pack("<2q", width, height))
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.digest()[:16]


def _orientation(exif: bytes) -> int | None:
    """Exif orientation of the first directory, 1 without one; None if the Exif data are invalid."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return None
    try:
        (start,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, start)
        for entry in range(count):
            tag, kind, length, value = struct.unpack_from(
                order + "HHIH", exif, start + 2 + 12 * entry
            )
            if tag == ORIENTATION_TAG:
                return int(value) if (kind, length) == (_SHORT, 1) else None
    except struct.error:
        return None
    return 1
