"""From a finished run to a model that is used elsewhere.

    from inference.export import ExportOptions, export

    done = export(ExportOptions(run="run", out="served", to="saved-model"))

To add a target, write a function `(run, options, on_progress) -> ExportedModel` in `targets` and
name it in `options.TARGETS`.
"""

from __future__ import annotations

from inference.export.options import TARGETS, ExportOptions
from inference.export.result import ExportedModel, OnProgress

__all__ = ["ExportOptions", "ExportedModel", "export"]


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
        from inference.export.trained_run import open_run

        target = TARGETS[options.to]  # loads TensorFlow

    return target(open_run(options.run, options.epoch, options.data), options, on_progress)
