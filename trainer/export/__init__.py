"""From a finished run to a model that is used elsewhere: one file per target.

    from trainer.export import ExportOptions, export

    done = export(ExportOptions(run="run", out="served", to="saved-model"))

A target is `(run, options, on_progress) -> (paths, rows, notes)`; to add one, write such a function
in a file of its own and name it in `targets.TARGETS` and `options.TARGET_NAMES`.
"""

from __future__ import annotations

from trainer.export.exporting import export
from trainer.export.options import ExportOptions
from trainer.export.result import ExportedModel

__all__ = ["ExportOptions", "ExportedModel", "export"]
