"""Leaves out banners and strips, of which a crop shows little."""

from __future__ import annotations

from fractions import Fraction

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.filters.base import Check
from beam_jobs.images.picture import Picture
from shard_format import UsageError


def max_aspect(ratio: float) -> Check:
    """Leaves out what is relatively longer.

    Args:
        ratio: Longer side by shorter side, at least 1; exactly this ratio is kept.
    """
    if not 1 <= ratio < float("inf"):
        raise UsageError(
            f"--max-aspect must be longer side / shorter side, at least 1, got {ratio:g}. Write "
            "for instance 3."
        )
    # What was typed: as a float, 2.3 is a little less, and 230 x 100 would be too long.
    exact = Fraction(repr(float(ratio)))

    def check(picture: Picture) -> None:
        height, width = picture.pixels.shape[:2]
        if max(height, width) > exact * min(height, width):
            raise Rejection(
                "too-elongated",
                f"it is {width} x {height} pixels, and --max-aspect is {ratio:g}",
                stage=FILTER,
            )

    return check
