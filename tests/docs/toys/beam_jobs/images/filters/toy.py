"""Leaves out images with a short side."""

from __future__ import annotations

from beam_jobs.images.decode.base import DecodedImage


def toy(side: int, image: DecodedImage) -> tuple[str, str] | None:
    if min(image.pixels.shape[:2]) < side:
        return "toy", f"its shorter side is below {side}"
    return None
