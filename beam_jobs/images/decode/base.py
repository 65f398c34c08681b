"""What decoding takes and returns: DecodingOptions and DecodedImage."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.corpus.record import Rejection
from shard_format import UsageError

Pixels = npt.NDArray[np.uint8]

# What may be done to an image on the way to 8-bit sRGB, by its name in DecodedImage.repairs.
REPAIRS = {
    "orientation": "turned or mirrored as its EXIF orientation says",
    "exif": "its broken EXIF data were ignored",
    "colour": "converted to sRGB from its ICC profile, from CMYK or from CIE L*a*b*",
    "profile": "its ICC profile is broken or for another colour space, and was ignored",
    "alpha": "composited over the background colour",
    "depth": "16 (or 12) bits reduced to 8",
    "frames": "the first of several frames or pages",
    "damage": "damaged, and kept because of --lenient",
    "coding": "a JPEG that not every reader decodes: arithmetic, lossless, RGB, rare subsampling",
}


class DecodedImage(NamedTuple):
    """A decoded image: upright, opaque; sRGB, unless `to_srgb` says otherwise.

    Attributes:
        pixels: [height, width, 3] uint8, RGB, C-contiguous.
        format: Format by content, not by file name: "JPEG", "PNG", ...
        width: Width in the file, in pixels, before orientation is applied.
        height: Height in the file, likewise.
        repairs: Keys of REPAIRS. Empty for a JPEG whose bytes can be stored unchanged: baseline or
            progressive, YCbCr or gray, upright, without a profile or with an sRGB one, and decoded
            without a warning.
        to_srgb: Converts pixels to sRGB, before or behind resizing; None if they are sRGB.
    """

    pixels: Pixels
    format: str
    width: int
    height: int
    repairs: frozenset[str] = frozenset()
    to_srgb: Callable[[Pixels], Pixels] | None = None

    def in_srgb(self) -> DecodedImage:
        """The image with its pixels in sRGB."""
        if self.to_srgb is None:
            return self
        return self._replace(pixels=self.to_srgb(self.pixels), to_srgb=None)


WHITE = (255, 255, 255)


class DecodingOptions(NamedTuple):
    """Options of decoding.

    Attributes:
        max_pixels: Images that declare more are rejected before any pixel is decoded. Pillow's own
            bound of 178,956,970 pixels applies to everything but JPEG too.
        lenient: Keep images that decode only with warnings or in part, with the repair "damage".
        background: Red, green and blue in [0, 255] that show through transparent pixels.
        animated: "first" takes the first frame or page, "refuse" rejects images with several.
        time_limit: Seconds that decoding anything but JPEG may take, above 0. The default of 60 is
            20 times what AVIF, WebP or PNG of the default --max-pixels take on a core of an AMD
            EPYC; only PNM in decimal digits takes longer, 80 seconds.
    """

    max_pixels: int
    lenient: bool = False
    background: tuple[int, int, int] = WHITE
    animated: str = "first"
    time_limit: float = 60.0


def parse_background(text: str) -> tuple[int, int, int]:
    """Red, green and blue in [0, 255] of "white" or "#rrggbb".

    Raises:
        UsageError: It is neither.
    """
    if text == "white":
        return WHITE
    match = re.fullmatch(r"#([0-9a-fA-F]{2})([0-9a-fA-F]{2})([0-9a-fA-F]{2})", text)
    if match is None:
        raise UsageError(
            f"--background is {text!r}, neither white nor #rrggbb in hexadecimal digits. Write for "
            "instance '#808080' for a middle gray."
        )
    red, green, blue = (int(part, 16) for part in match.groups())
    return red, green, blue


def check_pixels(width: int, height: int, options: DecodingOptions) -> None:
    """Rejects an image by the size it declares.

    Raises:
        Rejection: It has more than `max_pixels`.
    """
    if width * height > options.max_pixels:
        raise Rejection(
            "too-many-pixels",
            f"the file declares {width} x {height} pixels, more than --max-pixels "
            f"{options.max_pixels}",
        )
