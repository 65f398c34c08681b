"""Cleaning steps: rules of the user's choice that leave out pictures which could be used.

A step is one file here and one line in STEPS.
"""

from __future__ import annotations

from beam_jobs.images.filters.aspect import max_aspect
from beam_jobs.images.filters.base import Check, CleaningStep
from beam_jobs.images.filters.blank import blank
from beam_jobs.images.filters.min_side import min_side

# In this order; the first that leaves a picture out names the reason. Cheap ones come first.
STEPS: tuple[CleaningStep, ...] = (
    CleaningStep("min_side", min_side),
    CleaningStep("max_aspect", max_aspect),
    CleaningStep("blank", blank),
)


def make_checks(options: object) -> tuple[Check, ...]:
    """The checks that the options turn on, in order.

    Args:
        options: Has an attribute for every step; None turns the step off.

    Raises:
        UsageError: A value makes no sense.
    """
    values = [(step, getattr(options, step.option)) for step in STEPS]
    return tuple(step.make(value) for step, value in values if value is not None)


def cleaning_options(options: object) -> dict[str, object]:
    """The value of every step, for the key of what is staged with them."""
    return {step.option: getattr(options, step.option) for step in STEPS}


__all__ = ["STEPS", "Check", "CleaningStep", "cleaning_options", "make_checks"]
