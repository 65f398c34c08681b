"""Leaves out images that are too small to learn from."""

from __future__ import annotations

from beam_jobs.images.decode.base import DecodedImage


def min_side(pixels: int, image: DecodedImage) -> tuple[str, str] | None:
    """Leaves out an image with a shorter side of fewer pixels, before any resizing.

    Args:
        pixels: At least 1; a shorter side of exactly this is kept.
        image: Decoded.
    """
    height, width = image.pixels.shape[:2]
    if min(height, width) < pixels:
        return "too-small", f"it is {width} x {height} pixels, and --min-side is {pixels}"
    return None
