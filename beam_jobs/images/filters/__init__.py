"""Filters: rules of the user's choice that leave out usable images.

A filter is one file here, one line in STEPS and its option in `beam_jobs/options/image.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from beam_jobs.images.decode.base import DecodedImage
from beam_jobs.images.filters.blank import blank
from beam_jobs.images.filters.max_aspect import max_aspect
from beam_jobs.images.filters.min_side import min_side

# By option, which is None where the filter is off. Called with the value of the option and an
# image; raises Rejection(..., stage=FILTER) to leave it out. In this order, the cheap ones first;
# the first that leaves an image out is the reason.
STEPS: dict[str, Callable[[Any, DecodedImage], None]] = {
    "min_side": min_side,
    "max_aspect": max_aspect,
    "blank": blank,
}


def filter_options(options: object) -> dict[str, Any]:
    """The value of every filter, for the key of staged units."""
    return {name: getattr(options, name) for name in STEPS}


def make_checks(options: object) -> tuple[Callable[[DecodedImage], None], ...]:
    """The filters that the options turn on, in order."""
    given = {name: value for name, value in filter_options(options).items() if value is not None}
    return tuple(functools.partial(STEPS[name], value) for name, value in given.items())
