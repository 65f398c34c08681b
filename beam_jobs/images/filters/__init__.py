"""Filters: rules of the user's choice that leave out usable images.

A filter is one file here, one line in STEPS and its option in `beam_jobs/options/image.py`. It is
called with the value of the option and an image, and returns the reason and the detail to leave the
image out, or None to keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from beam_jobs.corpus.record import FILTER, Rejection
from beam_jobs.images.decode.base import DecodedImage
from beam_jobs.images.filters.blank import blank
from beam_jobs.images.filters.max_aspect import max_aspect
from beam_jobs.images.filters.min_side import min_side

# By option, which is None where the filter is off. In this order, the cheap ones first; the first
# that leaves an image out is the reason.
STEPS: dict[str, Callable[[Any, DecodedImage], tuple[str, str] | None]] = {
    "min_side": min_side,
    "max_aspect": max_aspect,
    "blank": blank,
}


def filter_options(options: object) -> dict[str, Any]:
    """The value of every filter, for the key of staged units."""
    return {name: getattr(options, name) for name in STEPS}


def check_image(image: DecodedImage, values: Mapping[str, Any]) -> None:
    """Applies the filters that are on.

    Args:
        image: The decoded image.
        values: See `filter_options`.

    Raises:
        Rejection: A filter leaves the image out.
    """
    for name, value in values.items():
        refused = STEPS[name](value, image) if value is not None else None
        if refused is not None:
            raise Rejection(*refused, stage=FILTER)
