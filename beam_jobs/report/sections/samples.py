"""A few records of every class as they are stored, and the mean image of every class.

A mean shows what the images of a class have in common, and what they should not.
"""

from __future__ import annotations

from beam_jobs.report.sampling import (
    MOST_CLASSES,
    MOST_IMAGES_PER_CLASS,
    SHOWN_IMAGES_PER_CLASS,
    ReportedSet,
)
from beam_jobs.report.sections.base import Content

_MOST_VALUES = 6  # kept columns of a record


def content(reported: ReportedSet) -> Content:
    """The first records of each class, with the values of their kept columns."""
    if not reported.class_samples:
        return f"There are no {'documents' if reported.holds_text else 'images'} to show."
    return {
        "shown_images": SHOWN_IMAGES_PER_CLASS,
        "most_classes": MOST_CLASSES,
        "most_values": _MOST_VALUES,
    }


def means(reported: ReportedSet) -> Content:
    """One mean image per class."""
    if reported.holds_text:
        return None
    if not reported.class_samples:
        return "There are no images to average."
    return {"most_images": MOST_IMAGES_PER_CLASS}
