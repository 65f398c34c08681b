"""What decoding gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

# What may have been done to a picture on the way to 8-bit sRGB, by its name in Picture.repairs.
REPAIRS = {
    "orientation": "turned or mirrored as its EXIF orientation says",
    "exif": "its EXIF data are broken and were ignored",
    "colour": "brought to sRGB from its ICC profile, from CMYK or from CIE L*a*b*",
    "profile": "its ICC profile is broken or of another kind of picture, and was ignored",
    "alpha": "laid over the background colour",
    "depth": "16 bits (or 12) brought to 8",
    "frames": "the first of several frames or pages",
    "damage": "kept with --lenient though it is damaged",
    "coding": "a JPEG that not every reader decodes: arithmetic, lossless, RGB, rare subsampling",
}


class Picture(NamedTuple):
    """A decoded picture: upright, opaque, sRGB.

    Attributes:
        pixels: [height, width, 3] uint8, RGB, C-contiguous.
        format: What the bytes are, whatever the file name says: "JPEG", "PNG", ...
        width: As stored in the file, in pixels, before orientation is applied.
        height: Likewise.
        repairs: Keys of REPAIRS. Empty for a JPEG whose bytes can be stored as they are: baseline
            or progressive, YCbCr or gray, upright, without a profile or with one that is sRGB, and
            decoded without a warning.
    """

    pixels: Pixels
    format: str
    width: int
    height: int
    repairs: frozenset[str] = frozenset()
