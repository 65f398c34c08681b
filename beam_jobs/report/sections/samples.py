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
    return {"explanation": _explanation(reported), "most_values": _MOST_VALUES}


def means(reported: ReportedSet) -> Content:
    """One mean image per class."""
    if reported.holds_text:
        return None
    if not reported.class_samples:
        return "There are no images to average."
    return {"most_images": MOST_IMAGES_PER_CLASS}


def _explanation(reported: ReportedSet) -> str:
    words = "The first" if reported.holds_text else f"The first {SHOWN_IMAGES_PER_CLASS}"
    words += " records" + (" of each class" if reported.class_names else "")
    seed = reported.manifest.config.get("seed")
    words += " in shuffled order" + (f" (seed {seed})." if isinstance(seed, int) else ".")
    if len(reported.class_names) > MOST_CLASSES:
        words += f" The {MOST_CLASSES} most frequent of {len(reported.class_names):,} classes."
    if len(reported.kept_columns) > _MOST_VALUES:
        words += f" {_MOST_VALUES} of {len(reported.kept_columns):,} kept columns."
    return words
