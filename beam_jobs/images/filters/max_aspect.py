"""Leaves out banners and strips, of which a crop shows little."""

from __future__ import annotations

from fractions import Fraction

from beam_jobs.images.decode.base import DecodedImage


def max_aspect(ratio: float, image: DecodedImage) -> tuple[str, str] | None:
    """Leaves out an image with a greater aspect ratio.

    Args:
        ratio: Longer side / shorter side, at least 1; an image of exactly this ratio is kept.
        image: Decoded.
    """
    height, width = image.pixels.shape[:2]
    # The decimal number as typed: the float 2.3 is a little less, so 230 x 100 would be too long.
    if max(height, width) > Fraction(repr(float(ratio))) * min(height, width):
        return "too-elongated", f"it is {width} x {height} pixels, and --max-aspect is {ratio:g}"
    return None
