"""Leaves out images that are too small to learn from."""

from __future__ import annotations

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode.base import DecodedImage
from beam_jobs.images.filters.base import Check
from shard_format import UsageError


def min_side(pixels: int) -> Check:
    """Leaves out images with a shorter side of fewer pixels, before any resizing.

    Args:
        pixels: At least 1; a shorter side of exactly this is kept.
    """
    if pixels < 1:
        raise UsageError(
            f"--min-side is {pixels}, and must be at least 1 pixel. Leave it out to keep all sizes."
        )

    def check(image: DecodedImage) -> None:
        height, width = image.pixels.shape[:2]
        if min(height, width) < pixels:
            raise Rejection(
                "too-small",
                f"it is {width} x {height} pixels, and --min-side is {pixels}",
                stage=FILTER,
            )

    return check
