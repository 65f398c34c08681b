"""A target of the export: the number of weights, as text."""

from trainer.export.options import ExportOptions
from trainer.export.result import ExportedModel, OnProgress
from trainer.export.targets import _finished, _written
from trainer.export.trained_run import TrainedRun


def to_toy(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """A file with one number."""
    _written(options.out / "model.toy", str(run.model.count_params()).encode())
    return _finished(run, options, ())
