"""Mean and standard deviation of the color channels, over the training split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_jobs.report.markup import Html, element, escape, note, table
from beam_jobs.report.sampling import ReportedSet

_CHANNELS = ("red", "green", "blue")
_WHITE = 255


def content(reported: ReportedSet) -> Html:
    """Returns a table with bars, and the numbers in [0, 1] as a normalization takes them."""
    for split, info in reported.manifest.splits.items():
        pixels = info.statistics.get("pixels")
        # A split without records has no mean.
        if isinstance(pixels, dict) and pixels.get("mean") and pixels.get("count", 1):
            return _table(split, pixels)
    return note("This set has no channel statistics.")


def _table(split: str, pixels: Mapping[str, Any]) -> Html:
    bounds = {"min", "max"} <= pixels.keys()
    rows = []
    for number, name in enumerate(_CHANNELS):
        mean, deviation = pixels["mean"][number], pixels["std"][number]
        cells = [f"{mean:.2f}", f"{deviation:.2f}"]
        cells += [f"{mean / _WHITE:.4f}", f"{deviation / _WHITE:.4f}"]
        if bounds:
            cells += [f"{pixels['min'][number]:g}", f"{pixels['max'][number]:g}"]
        rows.append(((name, _bar(name, mean, deviation)), *cells))
    head: tuple[str, ...] = ("channel", "mean", "deviation", "mean / 255", "deviation / 255")
    over = f"Over split {split}, in [0, 255]"
    if "count" in pixels:
        over += f", {pixels['count']:,} counted"
    caption = f"{over}. The bar is mean plus and minus one standard deviation."
    head += ("least", "greatest") if bounds else ()
    return escape((note(caption), table(head, rows, kind="channels")))


def _bar(name: str, mean: float, deviation: float) -> Html:
    low, high = max(0.0, mean - deviation), min(float(_WHITE), mean + deviation)
    position = f"left:{100 * low / _WHITE:.1f}%;width:{100 * (high - low) / _WHITE:.1f}%"
    band = element("span", class_=f"band {name}", style=position)
    mark = element("span", class_="needle", style=f"left:{100 * mean / _WHITE:.1f}%")
    return element("span", band, mark, class_="track", aria_hidden="true")
