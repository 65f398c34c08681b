"""A target of the export: the number of weights, as text."""

from inference.export.options import ExportOptions
from inference.export.result import ExportedModel, OnProgress
from inference.export.targets import _finished, _written
from inference.export.trained_run import TrainedRun


def to_toy(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """A file with one number."""
    _written(options.out / "model.toy", str(run.model.count_params()).encode())
    return _finished(run, options, ())
