"""The drawing of a search: values by trial, and by each option that varied."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foundation.config_file import key_of
from foundation.errors import file_error
from foundation.wording import shortened, visible
from search.space import Parameter, shown_value
from search.trials import Trial, best_trial

_COLUMNS = 3
_PANEL = (4.2, 3.2)  # inches
_DOTS_PER_INCH = 110
_LONGEST_LABEL = 18  # characters of a choice
# A loss that spans more than this factor is drawn on a logarithmic axis.
_WIDE = 20.0
_STATES = {"completed": ("o", "tab:blue"), "pruned": ("x", "0.6")}


def draw(
    path: Path, trials: Sequence[Trial], parameters: Sequence[Parameter], measure: str
) -> None:
    """Writes a PNG.

    Args:
        path: Path of the file; replaced whole.
        trials: Trials of a search.
        parameters: What varied.
        measure: Name of the values.

    Raises:
        InputError: It cannot be written.
    """
    from matplotlib.figure import Figure  # draws without a display, and without global state

    panels = 1 + len(parameters)
    columns = min(_COLUMNS, panels)
    rows = -(-panels // columns)
    size = (_PANEL[0] * columns, _PANEL[1] * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flat
    _draw_order(axes[0], trials, measure)
    for axis, parameter in zip(axes[1:], parameters, strict=False):
        _draw_parameter(axis, trials, parameter)
    for axis in axes[panels:]:
        axis.set_visible(False)
    values = [trial.value for trial in trials if trial.value is not None]
    if values and min(values) > 0 and max(values) / min(values) > _WIDE:
        axes[0].set_yscale("log")
    temporary = path.with_name(f"unfinished-{path.name}")
    try:
        figure.savefig(temporary, dpi=_DOTS_PER_INCH)
        os.replace(temporary, path)
    except OSError as error:
        raise file_error(error, str(path)) from error


def _draw_order(axis: Any, trials: Sequence[Trial], measure: str) -> None:
    _draw_points(axis, trials, [float(trial.number) for trial in trials])
    completed = [trial for trial in trials if trial.state == "completed" and trial.values]
    if completed:
        numbers = [trial.number for trial in completed]
        best = [
            (best_trial(completed[: count + 1]) or trial).value
            for count, trial in enumerate(completed)
        ]
        axis.step(numbers, best, where="post", color="tab:orange", label="best so far")
    axis.set_xlabel("trial")
    axis.set_ylabel(measure)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.legend(fontsize="small")
    axis.set_title(f"{len(trials)} trials", fontsize="medium")


def _draw_parameter(axis: Any, trials: Sequence[Trial], parameter: Parameter) -> None:
    axis.set_xlabel(key_of(parameter.name))
    axis.tick_params(labelleft=True)
    having = [trial for trial in trials if parameter.name in trial.options]
    if not parameter.choices:
        _draw_points(axis, having, [float(trial.options[parameter.name]) for trial in having])
        if parameter.distribution.log:
            axis.set_xscale("log")
        return
    labels = [
        shortened(visible(shown_value(choice)), _LONGEST_LABEL) for choice in parameter.choices
    ]
    places = [float(parameter.choices.index(trial.options[parameter.name])) for trial in having]
    _draw_points(axis, having, places)
    axis.set_xticks(range(len(labels)), labels, rotation=30 if len(labels) > 3 else 0)
    axis.set_xlim(-0.5, len(labels) - 0.5)


def _draw_points(axis: Any, trials: Sequence[Trial], places: Sequence[float]) -> None:
    for state, (marker, color) in _STATES.items():
        points = [
            (place, trial.value)
            for place, trial in zip(places, trials, strict=True)
            if trial.state == state and trial.value is not None and math.isfinite(trial.value)
        ]
        if points:
            axis.scatter(*zip(*points, strict=True), marker=marker, c=color, s=28, label=state)
    best = best_trial(trials)
    if best is not None and best.value is not None:
        place = places[[trial.number for trial in trials].index(best.number)]
        axis.scatter([place], [best.value], marker="*", c="tab:red", s=140, label="best", zorder=3)
    axis.grid(alpha=0.25)
