"""Mean and standard deviation of the color channels, over the training split."""

from __future__ import annotations

from beam_jobs.report.sampling import ReportedSet
from beam_jobs.report.sections.base import Content


def content(reported: ReportedSet) -> Content:
    """The numbers of the first split that has them."""
    if reported.holds_text:
        return None
    for split, info in reported.manifest.splits.items():
        pixels = info.statistics.get("pixels")
        # A split without records has no mean.
        if isinstance(pixels, dict) and pixels.get("mean") and pixels.get("count", 1):
            return {"split": split, "pixels": pixels}
    return "This set has no channel statistics."
