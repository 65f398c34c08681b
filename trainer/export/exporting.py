"""An export from start to end: the run, then the target, and what it leaves."""

from __future__ import annotations

from trainer.export.options import ExportOptions
from trainer.export.result import ExportedModel, OnProgress


def export(
    options: ExportOptions, on_progress: OnProgress = lambda what, done, total: None
) -> ExportedModel:
    """Exports the model of a finished run.

    Args:
        options: What to export, and where to put it.
        on_progress: Function called before every step.

    Raises:
        UsageError: There is no finished run, or the options do not fit it.
        ShardSetError: The set of the run is not there.
        InputError: The model cannot be loaded, converted or written.
        MissingExtraError: A converter or runtime is not installed.
    """
    from foundation.extras import naming_extras

    with naming_extras():
        from trainer.export.targets import TARGETS  # loads TensorFlow
        from trainer.export.trained_run import open_run

    run = open_run(options.run, options.epoch, options.data)
    return TARGETS[options.to](run, options, on_progress)
