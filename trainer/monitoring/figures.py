"""Figures of a run, drawn with Matplotlib: the learning curve, a confusion matrix, predictions.

Matplotlib is loaded when the first one is drawn. Names of classes are shown as they are: `$` begins
no formula in them.
"""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.events import EpochDone
from trainer.monitoring.samples import SamplePrediction

if importlib.util.find_spec("matplotlib") is None:  # not at the end of a run of days
    raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

MAX_DRAWN_CLASSES = 50
_MAX_COUNTED_CLASSES = 20  # with their counts in the cells
_DPI = 100
_NAME = 24  # characters of a name
_TRAIN, _VALIDATION, _BEST = "#1f77b4", "#d95f02", "#555555"
_COLUMNS = 4  # of predictions

Matrix = npt.NDArray[np.int64]


def learning_curve(history: Sequence[EpochDone], best: int | None) -> bytes:
    """A PNG: loss, quality and learning rate of every epoch.

    Args:
        history: Epochs, at least one.
        best: The best epoch, if one was validated.
    """
    quality, word = _quality(history)
    panels = [("loss", "loss", "val_loss"), (word, quality, f"val_{quality}")]
    figure = _figure(15, 4)
    plots = figure.subplots(1, 3)
    epochs = [epoch.epoch for epoch in history]
    marker = "o" if len(history) <= 30 else None
    for plot, (title, train, validation) in zip(plots, panels, strict=False):
        for name, label, color in (
            (train, "training", _TRAIN),
            (validation, "validation", _VALIDATION),
        ):
            values = [getattr(epoch, name) for epoch in history]
            if any(value is not None for value in values):
                shown = [math.nan if value is None else value for value in values]
                plot.plot(epochs, shown, label=label, color=color, marker=marker, markersize=4)
        if best is not None:
            plot.axvline(best, color=_BEST, linestyle=":", label=f"best epoch ({best})")
        plot.set_title(title)
        plot.legend()
    rates = [epoch.learning_rate for epoch in history]
    plots[2].plot(epochs, rates, color=_TRAIN, marker=marker, markersize=4)
    plots[2].set_title("learning rate")
    for plot in plots:
        plot.set_xlabel("epoch")
        margin = max(0.5, 0.02 * len(history))
        plot.set_xlim(epochs[0] - margin, epochs[-1] + margin)
        plot.grid(alpha=0.3)
        plot.xaxis.get_major_locator().set_params(integer=True)
    return _png(figure)


def _quality(history: Sequence[EpochDone]) -> tuple[str, str]:
    """(field of an epoch, its name) of every measure but the loss."""
    last = history[-1]
    if last.perplexity is not None:
        return "perplexity", "perplexity"
    return ("f1", "F1") if last.f1 is not None else ("accuracy", "accuracy")


def confusion_matrix(matrix: Matrix, class_names: Sequence[str], epoch: int) -> bytes:
    """A PNG: of the examples of each class, the share that each class was predicted for.

    Args:
        matrix: [true, predicted], of at most MAX_DRAWN_CLASSES classes.
        class_names: Names of the rows and columns.
        epoch: Epoch in the title.
    """
    count = len(class_names)
    side = max(4.5, min(14.0, 2.5 + 0.45 * count))
    figure = _figure(side + 1, side)
    plot = figure.subplots()
    shares = matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True))
    image = plot.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=plot, label="share of the true class", shrink=0.8)
    names = [_shortened(name) for name in class_names]
    plot.set_xticks(range(count), names, rotation=90, parse_math=False)
    plot.set_yticks(range(count), names, parse_math=False)
    plot.set_xlabel("predicted")
    plot.set_ylabel("true")
    right = np.trace(matrix) / max(1, matrix.sum())
    plot.set_title(f"epoch {epoch}: {right:.1%} of {matrix.sum():,} right")
    if count <= _MAX_COUNTED_CLASSES:
        for row, column in zip(*np.nonzero(matrix), strict=True):
            color = "white" if shares[row, column] > 0.5 else "black"
            text = f"{matrix[row, column]:,}"
            plot.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
    return _png(figure)


def sample_predictions(predictions: Sequence[SamplePrediction], epoch: int) -> bytes:
    """A PNG: a grid of images, each with its class and the predicted one.

    Args:
        predictions: Predictions for images, at least one.
        epoch: Epoch in the title.
    """
    columns = min(_COLUMNS, len(predictions))
    rows = -(-len(predictions) // columns)
    figure = _figure(2.6 * columns, 2.9 * rows + 0.5)
    plots = list(figure.subplots(rows, columns, squeeze=False).flat)
    for plot in plots:
        plot.axis("off")
    for plot, one in zip(plots, predictions, strict=False):
        plot.imshow(one.image)
        # By words too, not by colour alone.
        text = f"{_shortened(one.predicted)} {one.probability:.0%}"
        text += ", right" if one.is_right else f"\nis {_shortened(one.true)}"
        color = "#1b7837" if one.is_right else "#b2182b"
        plot.set_title(text, fontsize=9, color=color, parse_math=False)
    right = sum(one.is_right for one in predictions)
    figure.suptitle(f"epoch {epoch}: {right} of {len(predictions)} right")
    return _png(figure)


def _figure(width: float, height: float) -> Any:
    # Without pyplot, which keeps figures and may open windows.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    png = io.BytesIO()
    with warnings.catch_warnings():  # names in scripts that the font lacks, or long ones
        warnings.simplefilter("ignore")
        figure.savefig(png, format="png")
    return png.getvalue()


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
