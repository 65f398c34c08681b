"""Leaves out blank images, of one colour or nearly so."""

from __future__ import annotations

from fractions import Fraction

from PIL import Image

from beam_jobs.images.decode.base import DecodedImage, Pixels

_BLOCK_PIXELS = 1 << 20  # Pillow's copy of a block has 4 bytes a pixel


def blank(deviation: float, image: DecodedImage) -> tuple[str, str] | None:
    """Leaves out an image with a smaller standard deviation of luma.

    Args:
        deviation: Bound in (0, 127.5] grey levels of [0, 255]; half black, half white is the
            greatest that there is. Photographs of flat things have 10 and more, noise of a sensor
            or of JPEG with a closed shutter less than 3.
        image: Decoded.
    """
    variance = luma_variance(image.in_srgb().pixels)
    if variance < Fraction(repr(float(deviation))) ** 2:
        spread = f"its luma deviates by {float(variance) ** 0.5:.2f} grey levels"
        return "blank", f"{spread}, and --blank is {deviation:g}"
    return None


def luma_variance(pixels: Pixels) -> Fraction:
    """Exact variance of luma in squared grey levels, so that every CPU has the same result.

    Luma is ITU-R BT.601 in integers, (19595 R + 38470 G + 7471 B + 32768) >> 16, as in Pillow.

    Args:
        pixels: [height, width, 3] uint8.
    """
    counts = [0] * 256
    rows = max(1, _BLOCK_PIXELS // pixels.shape[1])
    for top in range(0, pixels.shape[0], rows):
        luma = Image.fromarray(pixels[top : top + rows]).convert("L")
        counts = [total + part for total, part in zip(counts, luma.histogram(), strict=True)]
    number = sum(counts)
    mean = Fraction(sum(level * count for level, count in enumerate(counts)), number)
    square = Fraction(sum(level * level * count for level, count in enumerate(counts)), number)
    return square - mean * mean
