"""An export from start to end: the run, the target, the measurements, export.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.export.options import ExportOptions

if TYPE_CHECKING:
    from trainer.export.measuring import Measured

REPORT = "export.json"

# called with (what is done now, steps done, steps in all)
OnProgress = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Exported:
    """What an export made.

    Attributes:
        path: The version folder, or the directory of the files.
        models: Every exported model with its measurements; with --evaluate that of Keras first.
        notes: What the user should know.
        signatures: Names of the signatures of a SavedModel.
        report: export.json.
    """

    path: Path
    models: tuple[Measured, ...]
    notes: tuple[str, ...]
    signatures: tuple[str, ...]
    report: Path


def _ignore(what: str, done: int, total: int) -> None:
    """Nobody listens."""


def export(options: ExportOptions, on_progress: OnProgress = _ignore) -> Exported:
    """Exports the model of a finished run.

    Args:
        options: What to export, and where to put it.
        on_progress: Called before every step.

    Raises:
        UsageError: There is no finished run, or the options do not fit it.
        ShardSetError: The set of the run is not there.
        InputError: The model cannot be loaded, converted or written.
        MissingExtraError: A converter or runtime is not installed.
    """
    from shard_format.extras import naming_extras

    with naming_extras():
        from trainer.export.targets import TARGETS  # loads TensorFlow
        from trainer.export.trained_run import open_run

    run = open_run(options.run, options.epoch, options.data)
    return TARGETS[options.to](run, options, on_progress)


def report_of(run: Any, options: ExportOptions, models: tuple[Measured, ...]) -> dict[str, Any]:
    """The content of export.json: what a client of the model needs to know."""
    return {
        "options": options.as_json(),
        "model": str(run.model_path),
        "kind": run.kind,
        "class_names": list(run.class_names),
        "multi_label": run.multi_label,
        "image_size": run.options.get("image_size"),
        "max_tokens": run.options.get("max_tokens"),
        "normalization": run.normalization and dataclasses.asdict(run.normalization),
        "root_hash": run.manifest.root_hash,
        "preprocessing": {
            name: run.manifest.config.get(name)
            for name in ("resize", "enlarge", "encoding", "quality", "background", "clean")
            if name in run.manifest.config
        },
        "models": [dataclasses.asdict(model) for model in models],
    }
