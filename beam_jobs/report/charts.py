"""Histograms, bars and legends: shapes stretch to the width of the page, numbers are its text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from beam_jobs.report.markup import Html, drawing, element, figure
from foundation.wording import counted

_BINS = 36
_LOGARITHMIC_FROM = 12  # greatest over least, from which on the scale is logarithmic
_WIDTH, _HEIGHT = 360, 96  # of the drawing; 96 pixels high on the page
_LEAST_BAR = 1.5  # pixels: a bin with one record is visible next to one with a million
_MOST_TICKS = 4
_SUMMARY_KEYS = {"min", "max", "mean", "histogram"}

Array = npt.NDArray[np.float64]


def histogram(
    values: npt.NDArray[np.generic],
    title: str,
    wording: Callable[[float], str],
    unit: int = 1,
) -> Html | None:
    """Returns a figure of the distribution of values; None if there are none.

    Args:
        values: [n], finite.
        title: What the values are.
        wording: How a value is written.
        unit: Round numbers on the axis are multiples of it, such as 1024 for bytes.
    """
    if not len(values):
        return None
    numbers = np.asarray(values, np.float64)
    least, median, greatest = np.quantile(numbers, (0, 0.5, 1)).tolist()
    if least == greatest:
        value = element("div", wording(least), class_="single")
        caption = (element("strong", title), ": the same for every record")
        return figure(value, caption, class_="histogram")
    logarithmic = least > 0 and greatest / least >= _LOGARITHMIC_FROM
    edges = _edges(least, greatest, logarithmic, np.issubdtype(values.dtype, np.integer))
    counts = np.histogram(numbers, edges)[0]
    spread = f"{wording(least)} to {wording(greatest)}, median {wording(median)}"
    return _distribution(edges, counts, logarithmic, title, wording, "record", unit, spread)


def counted_histogram(
    summary: object,
    title: str,
    wording: Callable[[float], str],
    unit: int = 1,
) -> Html | None:
    """A figure of an integer column of documents that the manifest summarizes, on a log scale.

    Args:
        summary: Its statistics in the manifest: "min", "max", "mean", and "histogram" with "edges"
            and "counts". A manifest may hold anything here; None is returned if it is not that.
        title: What the values are.
        wording: How a value is written.
        unit: As in `histogram`.
    """
    if not isinstance(summary, Mapping) or not _SUMMARY_KEYS <= set(summary):
        return None
    least, greatest, mean = (float(summary[name]) for name in ("min", "max", "mean"))
    if least == greatest:
        return histogram(np.array([least, greatest]), title, wording)
    edges = np.asarray(summary["histogram"]["edges"], np.float64)
    counts = np.asarray(summary["histogram"]["counts"], np.intp)
    if edges.shape != (len(counts) + 1,) or not counts.any():
        return None
    edges[-1] = min(edges[-1], greatest + 1)
    edges = np.maximum(edges, 0.5)  # a log scale has no 0
    if np.any(np.diff(edges) <= 0):
        return None
    spread = f"{wording(least)} to {wording(greatest)}, mean {wording(mean)}"
    return _distribution(edges, counts, True, title, wording, "document", unit, spread)


def _distribution(
    edges: Array,
    counts: npt.NDArray[np.intp],
    logarithmic: bool,
    title: str,
    wording: Callable[[float], str],
    noun: str,
    unit: int,
    spread: str,
) -> Html:
    scale = _Scale(float(edges[0]), float(edges[-1]), logarithmic)
    bars = drawing(
        _bars(edges, counts, scale, wording),
        f"{_WIDTH} {_HEIGHT}",
        f"Histogram of {title.lower()}: {spread}",
        class_="s0",
    )
    most = element("div", counted(int(counts.max()), noun), class_="most", aria_hidden="true")
    caption = (element("strong", title), f": {spread}", "; log scale" if logarithmic else "")
    return figure((most, bars, _axis(scale, wording, unit)), caption, class_="histogram")


def _edges(least: float, greatest: float, logarithmic: bool, integers: bool) -> Array:
    if integers and greatest - least < _BINS:
        return np.arange(least - 0.5, greatest + 1)
    if not logarithmic:
        return np.linspace(least, greatest, _BINS + 1)
    edges = np.geomspace(least, greatest, _BINS + 1)
    edges[0], edges[-1] = least, greatest  # rounding must leave no value outside
    # Of small integers, several bins would fall between two neighbors.
    return np.unique(np.round(edges)) if integers else edges


class _Scale:
    """Maps values to [0, 1]."""

    def __init__(self, least: float, greatest: float, logarithmic: bool) -> None:
        self.least, self.greatest, self.logarithmic = least, greatest, logarithmic

    def __call__(self, value: float) -> float:
        if self.logarithmic:
            return math.log(value / self.least) / math.log(self.greatest / self.least)
        return (value - self.least) / (self.greatest - self.least)

    def ticks(self, unit: int) -> list[float]:
        """A few round values inside the scale: multiples of the unit, or powers of 2 for bytes."""
        inside = _Scale(self.least / unit, self.greatest / unit, self.logarithmic)
        base = 10 if unit == 1 else 2
        ticks = inside._powers(base) if self.logarithmic else inside._multiples()
        return [tick * unit for tick in ticks]

    def _powers(self, base: int) -> list[float]:
        exponents = range(math.floor(math.log(self.least, base)), 64)
        between = (1, 2, 5) if base == 10 else (1,)
        found = self._inside([part * float(base) ** e for e in exponents for part in between])
        for step in range(1, 64):
            if len(found) <= _MOST_TICKS + 1:
                break
            found = self._inside([float(base) ** e for e in exponents if e % step == 0])
        return found

    def _multiples(self) -> list[float]:
        width = self.greatest - self.least
        power = 10.0 ** math.floor(math.log10(width / _MOST_TICKS))
        step = next(f * power for f in (1, 2, 5, 10) if width <= _MOST_TICKS * f * power)
        first = math.ceil(self.least / step)
        return self._inside([(first + number) * step for number in range(_MOST_TICKS + 1)])

    def _inside(self, values: Sequence[float]) -> list[float]:
        return [value for value in values if self.least <= value <= self.greatest]


def _bars(
    edges: Array, counts: npt.NDArray[np.intp], scale: _Scale, wording: Callable[[float], str]
) -> list[Html]:
    bars = []
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if not count:
            continue
        height = max(_LEAST_BAR, count / counts.max() * _HEIGHT)
        start, end = _WIDTH * scale(left), _WIDTH * scale(right)
        hint = element("title", f"{wording(left)} to {wording(right)}: {count:,}")
        bars.append(
            element(
                "rect",
                hint,
                x=f"{start:.2f}",
                y=f"{_HEIGHT - height:.2f}",
                width=f"{max(0.5, 0.94 * (end - start)):.2f}",
                height=f"{height:.2f}",
            )
        )
    return bars


def _axis(scale: _Scale, wording: Callable[[float], str], unit: int) -> Html:
    marks = []
    for tick in scale.ticks(unit):
        left = 100 * scale(tick)
        # A centered label at the edge would extend beyond the figure.
        side = "start" if left < 6 else "end" if left > 94 else "tick"
        marks.append(element("span", wording(tick), class_=side, style=f"left:{left:.1f}%"))
    return element("div", marks, class_="axis", aria_hidden="true")


def stacked_bar(counts: Sequence[float], greatest: float) -> Html:
    """Returns a thin bar with a part for each count, such as those of the splits.

    Args:
        counts: The lengths of the parts.
        greatest: What fills the width.
    """
    parts = [
        element("span", class_=f"s{number % 6}", style=f"width:{100 * count / greatest:.2f}%")
        for number, count in enumerate(counts)
        if count
    ]
    return element("span", parts, class_="bar", aria_hidden="true")


def legend(splits: Iterable[str]) -> Html:
    """Returns which color belongs to which split."""
    marks = [
        element("span", element("span", class_=f"mark s{number % 6}"), name)
        for number, name in enumerate(splits)
    ]
    return element("p", marks, class_="legend")


def rank_curve(ordered: Sequence[int], description: str, caption: str) -> Html:
    """Returns a figure of how counts fall from the most frequent to the rarest, on a log scale.

    Args:
        ordered: Two or more counts, the largest first.
        description: For those who do not see it.
        caption: The text above it.
    """
    shown = ordered[:: max(1, len(ordered) // _WIDTH)]
    width = _WIDTH / len(shown)
    highest = math.log1p(max(1, ordered[0]))
    points = "".join(
        f"V{_HEIGHT * (1 - math.log1p(count) / highest):.1f}h{width:.2f}" for count in shown
    )
    area = element("path", d=f"M0 {_HEIGHT}{points}V{_HEIGHT}Z")
    curve = drawing(area, f"{_WIDTH} {_HEIGHT}", description, class_="s0 curve")
    most = element("div", counted(ordered[0], "record"), class_="most", aria_hidden="true")
    ranks = _Scale(1, len(ordered), logarithmic=False)
    axis = _axis(ranks, lambda rank: f"class {rank:,.0f}", 1)
    return figure((most, curve, axis), caption, class_="histogram wide")
