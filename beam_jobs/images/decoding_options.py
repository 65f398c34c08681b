"""What a user may decide about decoding."""

from __future__ import annotations

import dataclasses
import re

from beam_jobs.corpus.record import Rejection
from shard_format import UsageError

ANIMATED = ("first", "refuse")
WHITE = (255, 255, 255)


@dataclasses.dataclass(frozen=True)
class DecodingOptions:
    """How pictures are decoded; checked when it is made.

    Attributes:
        max_pixels: Pictures that declare more are refused before any pixel is decoded. Pillow's own
            bound of 178,956,970 pixels holds besides for everything but JPEG.
        lenient: Keeps what decodes only with warnings or in part, with the repair "damage".
        background: Red, green and blue in [0, 255] that show through transparent pixels.
        animated: "first" takes the first frame or page, "refuse" refuses what has several.
        time_limit: Seconds that decoding anything but JPEG may take, more than 0. With 60,
            pictures of the default --max-pixels have 20 times what AVIF, WebP or PNG of that size
            take on a core of an AMD EPYC; only PNM in decimal digits takes more, 80 seconds.
    """

    max_pixels: int
    lenient: bool = False
    background: tuple[int, int, int] = WHITE
    animated: str = "first"
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        if self.max_pixels < 1:
            raise UsageError(
                f"--max-pixels must be at least 1, got {self.max_pixels}. Choose a larger number."
            )
        if self.animated not in ANIMATED:
            raise UsageError(
                f"--animated must be {' or '.join(ANIMATED)}, got {self.animated!r}. Write one of "
                "the two."
            )
        if not 0 < self.time_limit < float("inf"):
            raise UsageError(
                f"--time-limit must be a number of seconds above 0, got {self.time_limit:g}. Write "
                "for instance 60."
            )


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
            f"--background must be white or #rrggbb in hexadecimal digits, got {text!r}. Write for "
            "instance '#808080' for a middle gray."
        )
    red, green, blue = (int(part, 16) for part in match.groups())
    return red, green, blue


def check_pixels(width: int, height: int, options: DecodingOptions) -> None:
    """Refuses a picture by what it declares.

    Raises:
        Rejection: It has more than `max_pixels`.
    """
    if width * height > options.max_pixels:
        raise Rejection(
            "too-many-pixels",
            f"the file declares {width} x {height} pixels, more than --max-pixels "
            f"{options.max_pixels}",
        )
