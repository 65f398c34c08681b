"""Filters: rules of the user's choice that leave out usable images.

A filter is one file here and one line in STEPS.
"""

from __future__ import annotations

from beam_jobs.images.filters.base import Check, Filter
from beam_jobs.images.filters.blank import blank
from beam_jobs.images.filters.max_aspect import max_aspect
from beam_jobs.images.filters.min_side import min_side

# In this order, the cheap ones first; the first that leaves an image out is the reason.
STEPS: tuple[Filter, ...] = (
    Filter("min_side", min_side),
    Filter("max_aspect", max_aspect),
    Filter("blank", blank),
)


def make_checks(options: object) -> tuple[Check, ...]:
    """The checks that the options turn on, in order.

    Args:
        options: Has an attribute for every filter; None turns it off.

    Raises:
        UsageError: A value is invalid.
    """
    values = [(step, getattr(options, step.option)) for step in STEPS]
    return tuple(step.make(value) for step, value in values if value is not None)


def filter_options(options: object) -> dict[str, object]:
    """The value of every filter, for the key of staged units."""
    return {step.option: getattr(options, step.option) for step in STEPS}


__all__ = ["STEPS", "Check", "Filter", "filter_options", "make_checks"]
