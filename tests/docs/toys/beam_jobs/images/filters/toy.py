"""Leaves out images with a short side."""

from __future__ import annotations

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode.base import DecodedImage


def toy(side: int, image: DecodedImage) -> None:
    if min(image.pixels.shape[:2]) < side:
        raise Rejection("toy", f"its shorter side is below {side}", stage=FILTER)
