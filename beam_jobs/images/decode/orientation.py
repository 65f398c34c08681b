"""EXIF orientation: which way is up."""

from __future__ import annotations

import numpy as np
from PIL import Image

from beam_jobs.images.decode.base import Pixels

ORIENTATION_TAG = 0x0112  # Exif 2.32, section 4.6.4
TURNED = (2, 3, 4, 5, 6, 7, 8)  # orientations that are not upright


def turn_upright(pixels: Pixels, exif: bytes | None, repairs: set[str]) -> Pixels:
    """Reverts the orientation in Exif data; broken data are ignored.

    Only Exif counts, as in browsers: XMP has a copy of the tag that editors forget to update.

    Args:
        pixels: [height, width, 3] uint8, as stored.
        exif: Exif data, with or without a leading "Exif"; None if there are none.
        repairs: "orientation" or "exif" is added to it where it applies.
    """
    if not exif:
        return pixels
    try:
        tags = Image.Exif()
        tags.load(exif)
        orientation = tags.get(ORIENTATION_TAG, 1)
    except Exception:  # Pillow's parser passes on what struct, int and its own code raise.
        repairs.add("exif")
        return pixels
    return apply_orientation(pixels, orientation, repairs)


def apply_orientation(pixels: Pixels, orientation: object, repairs: set[str]) -> Pixels:
    """Reverts an orientation in [2, 8]; anything else is upright. See turn_upright."""
    if orientation not in TURNED:
        return pixels
    repairs.add("orientation")
    return np.ascontiguousarray(oriented(pixels, orientation))


def oriented(pixels: Pixels, orientation: object) -> Pixels:
    """[height, width, ...] with an orientation reverted."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels
