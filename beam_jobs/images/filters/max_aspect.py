"""Leaves out banners and strips, of which a crop shows little."""

from __future__ import annotations

from fractions import Fraction

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode.base import DecodedImage
from beam_jobs.images.filters.base import Check
from shard_format import UsageError


def max_aspect(ratio: float) -> Check:
    """Leaves out images with a greater aspect ratio.

    Args:
        ratio: Longer side / shorter side, at least 1; an image of exactly this ratio is kept.
    """
    if not 1 <= ratio < float("inf"):
        raise UsageError(
            f"--max-aspect is {ratio:g}, and longer side / shorter side is at least 1. Write for "
            "instance 3."
        )
    # The decimal number as typed: the float 2.3 is a little less, so 230 x 100 would be too long.
    exact = Fraction(repr(float(ratio)))

    def check(image: DecodedImage) -> None:
        height, width = image.pixels.shape[:2]
        if max(height, width) > exact * min(height, width):
            raise Rejection(
                "too-elongated",
                f"it is {width} x {height} pixels, and --max-aspect is {ratio:g}",
                stage=FILTER,
            )

    return check
