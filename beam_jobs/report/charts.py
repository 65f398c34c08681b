"""Shapes of histograms and curves; `templates/charts.html` draws them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foundation.wording import counted

_BINS = 36
_LOGARITHMIC_FROM = 12  # greatest over least, from which on the scale is logarithmic
_WIDTH, _HEIGHT = 360, 96  # of the drawing; 96 pixels high on the page
_TALL = 180  # of curves
_LEAST_BAR = 1.5  # pixels: a bin with one record is visible next to one with a million
_MOST_TICKS = 4
_SUMMARY_KEYS = {"min", "max", "mean", "histogram"}

Array = npt.NDArray[np.float64]
Ticks = list[tuple[str, float]]  # the label of a tick, and its position in percent of the width


class Bar(NamedTuple):
    """A bar of a histogram in pixels, and what it counts."""

    left: float
    width: float
    height: float
    hint: str


class Histogram(NamedTuple):
    """The distribution of values.

    Attributes:
        title: What the values are.
        single: The value, if all records have the same one; nothing else is drawn then.
        spread: Range and middle of the values.
        logarithmic: Whether the horizontal scale is logarithmic.
        most: The height of the drawing: how many records the largest bin has.
        bars: The bins that have records.
        ticks: Round values on the horizontal scale.
    """

    title: str
    single: str | None = None
    spread: str = ""
    logarithmic: bool = False
    most: str = ""
    bars: Sequence[Bar] = ()
    ticks: Sequence[tuple[str, float]] = ()


class RankCurve(NamedTuple):
    """A curve of counts from the most frequent class to the rarest.

    Attributes:
        description: What it shows.
        most: The largest count.
        half: How many of the largest classes have half of all records.
        heights: Heights in pixels, on a log scale.
        step: Pixels from one height to the next.
        ticks: Ranks on the horizontal scale.
    """

    description: str
    most: int
    half: int
    heights: list[float]
    step: float
    ticks: Ticks


class EpochCurve(NamedTuple):
    """How a measure of one run went on.

    Attributes:
        path: The path of an SVG, in pixels; empty without a value.
        best: The same with a dot at the best epoch.
    """

    path: str
    best: str


class EpochChart(NamedTuple):
    """A measure of several runs, by epoch.

    Attributes:
        title: The measure.
        spread: Range of its values.
        logarithmic: Whether the vertical scale is logarithmic.
        curves: One for each run.
        levels: Round values, each with its height in percent.
        ticks: Epochs on the horizontal scale.
    """

    title: str
    spread: str
    logarithmic: bool
    curves: list[EpochCurve]
    levels: Ticks
    ticks: Ticks


def histogram(
    values: npt.NDArray[np.generic],
    title: str,
    wording: Callable[[float], str],
    unit: int = 1,
) -> Histogram | None:
    """Draws the distribution of values; None if there are none.

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
        return Histogram(title, single=wording(least))
    logarithmic = least > 0 and greatest / least >= _LOGARITHMIC_FROM
    edges = _edges(least, greatest, logarithmic, np.issubdtype(values.dtype, np.integer))
    spread = f"{wording(least)} to {wording(greatest)}, median {wording(median)}"
    shown = Histogram(title, spread=spread, logarithmic=logarithmic)
    return _with_bars(shown, edges, np.histogram(numbers, edges)[0], wording, "record", unit)


def counted_histogram(
    summary: object,
    title: str,
    wording: Callable[[float], str],
    unit: int = 1,
) -> Histogram | None:
    """Draws an integer column of documents that the manifest summarizes, on a log scale.

    Args:
        summary: Its statistics in the manifest: "min", "max", "mean", and "histogram" with "edges"
            and "counts". A manifest may hold anything here; None is returned if it is not that.
        title: What the values are.
        wording: How a value is written.
        unit: See `histogram`.
    """
    if not isinstance(summary, Mapping) or not _SUMMARY_KEYS <= set(summary):
        return None
    least, greatest, mean = (float(summary[name]) for name in ("min", "max", "mean"))
    if least == greatest:
        return Histogram(title, single=wording(least))
    edges = np.asarray(summary["histogram"]["edges"], np.float64)
    counts = np.asarray(summary["histogram"]["counts"], np.intp)
    if edges.shape != (len(counts) + 1,) or not counts.any():
        return None
    edges[-1] = min(edges[-1], greatest + 1)
    edges = np.maximum(edges, 0.5)  # a log scale has no 0
    if np.any(np.diff(edges) <= 0):
        return None
    spread = f"{wording(least)} to {wording(greatest)}, mean {wording(mean)}"
    shown = Histogram(title, spread=spread, logarithmic=True)
    return _with_bars(shown, edges, counts, wording, "document", unit)


def rank_curve(ordered: Sequence[int]) -> RankCurve:
    """Draws counts of two or more classes, the largest first."""
    running = list(itertools.accumulate(ordered))
    half = 1 + next(at for at, total in enumerate(running) if 2 * total >= running[-1])
    shown = ordered[:: max(1, len(ordered) // _WIDTH)]
    highest = math.log1p(max(1, ordered[0]))
    heights = [_HEIGHT * math.log1p(count) / highest for count in shown]
    description = f"Records of all {len(ordered):,} classes, most frequent first"
    ticks = [
        (f"class {rank:,.0f}", 100 * (rank - 1) / (len(ordered) - 1))
        for rank in _multiples(1, len(ordered))
    ]
    return RankCurve(description, ordered[0], half, heights, _WIDTH / len(shown), ticks)


def epoch_chart(
    title: str,
    runs: Sequence[Sequence[float | None]],
    best: Sequence[int | None],
    wording: Callable[[float], str],
) -> EpochChart | None:
    """Draws a measure of several runs; None if none has it.

    Args:
        title: The measure.
        runs: A finite value for each epoch of each run, or None.
        best: The best epoch of each, from 1; None for none.
        wording: How a value is written.
    """
    values = [value for run in runs for value in run if value is not None]
    if not values:
        return None
    least, greatest = min(values), max(values)
    spread = f"{wording(least)} to {wording(greatest)}"
    if least == greatest:
        greatest += abs(greatest) / 2 or 1.0
    logarithmic = least > 0 and greatest / least >= _LOGARITHMIC_FROM
    scale: Callable[[float], float] = math.log if logarithmic else float
    last = max(map(len, runs))
    step = _WIDTH / max(1, last - 1)

    def height(value: float) -> float:
        return (scale(value) - scale(least)) / (scale(greatest) - scale(least))

    def curve(run: Sequence[float | None], best: int | None) -> EpochCurve:
        points = {
            epoch: f"{(epoch - 1) * step:.1f} {(1 - height(value)) * _TALL:.1f}"
            for epoch, value in enumerate(run, 1)
            if value is not None
        }
        # A line of no length is a dot.
        path = "M" + "L".join(points.values()) + "h0" if points else ""
        return EpochCurve(path, f"M{points[best]}h0" if best in points else "")

    rounded = (_powers if logarithmic else _multiples)(least, greatest, 10)
    epochs = _multiples(1, last) if last > 1 else [1.0]
    return EpochChart(
        title,
        spread,
        logarithmic,
        list(map(curve, runs, best)),
        [(wording(value), 100 * height(value)) for value in rounded],
        [(f"{n:,.0f}", 100 * (n - 1) * step / _WIDTH) for n in epochs if n == int(n)],
    )


def _with_bars(
    shown: Histogram,
    edges: Array,
    counts: npt.NDArray[np.intp],
    wording: Callable[[float], str],
    noun: str,
    unit: int,
) -> Histogram:
    least, greatest = float(edges[0]), float(edges[-1])
    scale = np.log if shown.logarithmic else np.asarray
    starts = (scale(edges) - scale(least)) / (scale(greatest) - scale(least)) * _WIDTH
    bars = [
        Bar(
            start,
            max(0.5, 0.94 * (end - start)),
            max(_LEAST_BAR, count / counts.max() * _HEIGHT),
            f"{wording(left)} to {wording(right)}: {count:,}",
        )
        for (left, right), (start, end), count in zip(
            itertools.pairwise(edges), itertools.pairwise(starts.tolist()), counts, strict=True
        )
        if count
    ]
    round_values = _powers if shown.logarithmic else _multiples
    values = np.array(round_values(least / unit, greatest / unit, 10 if unit == 1 else 2)) * unit
    lefts = 100 * (scale(values) - scale(least)) / (scale(greatest) - scale(least))
    ticks = list(zip(map(wording, values.tolist()), lefts.tolist(), strict=True))
    return shown._replace(most=counted(int(counts.max()), noun), bars=bars, ticks=ticks)


def _edges(least: float, greatest: float, logarithmic: bool, integers: bool) -> Array:
    if integers and greatest - least < _BINS:
        return np.arange(least - 0.5, greatest + 1)
    if not logarithmic:
        return np.linspace(least, greatest, _BINS + 1)
    edges = np.geomspace(least, greatest, _BINS + 1)
    edges[0], edges[-1] = least, greatest  # rounding must leave no value outside
    # Of small integers, several bins would fall between two neighbors.
    return np.unique(np.round(edges)) if integers else edges


def _powers(least: float, greatest: float, base: int) -> list[float]:
    """A few powers of a base in [least, greatest]; of 10, also 2 and 5 times them."""
    exponents = range(math.floor(math.log(least, base)), math.ceil(math.log(greatest, base)) + 1)
    between = (1, 2, 5) if base == 10 else (1,)
    powers = [part * float(base) ** exponent for exponent in exponents for part in between]
    inside = [value for value in powers if least <= value <= greatest]
    step = 0
    while len(inside) > _MOST_TICKS + 1:
        step += 1
        powers = [float(base) ** exponent for exponent in exponents if exponent % step == 0]
        inside = [value for value in powers if least <= value <= greatest]
    return inside


def _multiples(least: float, greatest: float, base: int = 10) -> list[float]:
    """A few round numbers in [least, greatest]: multiples of 1, 2 or 5 times a power of 10."""
    power = 10.0 ** math.floor(math.log10((greatest - least) / _MOST_TICKS))
    step = next(f * power for f in (1, 2, 5, 10) if greatest - least <= _MOST_TICKS * f * power)
    first = math.ceil(least / step)
    values = [(first + number) * step for number in range(_MOST_TICKS + 1)]
    return [value for value in values if least <= value <= greatest]
