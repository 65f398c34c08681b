"""The mean image of every class: what its images have in common, and what they should not."""

from __future__ import annotations

from beam_jobs.report.markup import Html, element, escape, foreign, note
from beam_jobs.report.sampling import MOST_IMAGES_PER_CLASS, ReportedSet
from beam_jobs.report.sections.base import image, tile, tiles


def content(reported: ReportedSet) -> Html:
    """Returns one mean per class."""
    if not reported.class_samples:
        return note("There are no images to average.")
    means = [
        tile(
            image(sample.mean_image(), f"Mean image of {sample.name}"),
            (foreign(sample.name, 40), element("small", f"of {sample.images}")),
        )
        for sample in reported.class_samples
    ]
    explained = (
        "Over the central squares of the first records of each class, at most "
        f"{MOST_IMAGES_PER_CLASS}. A frame, a watermark or a background that the images share is "
        "visible here at once."
    )
    return escape((note(explained), tiles(means)))
