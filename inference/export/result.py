"""The result of an export, and the content of export.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inference.export.options import ExportOptions

# called with (the work in progress, steps done, steps in all)
OnProgress = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True)
class Measured:
    """Size and speed of one model.

    Attributes:
        name: "keras", a key of QUANTIZATIONS, or the target.
        path: File or folder of the model.
        size_bytes: Size of the file, or of all files in the folder.
        gzip_bytes: Size after gzip, which stores the zeros of a pruned model in little.
        accuracy: Share of records of which the label, or every label, is right; None if it was not
            measured.
        records: Number of records that it was measured on.
        milliseconds: Median time of one example in this process on one thread; None likewise.
    """

    name: str
    path: str
    size_bytes: int
    gzip_bytes: int
    accuracy: float | None = None
    records: int = 0
    milliseconds: float | None = None


@dataclasses.dataclass(frozen=True)
class ExportedModel:
    """The result of an export.

    Attributes:
        path: The version folder, or the directory of the files.
        models: Every exported model with its measurements; with --evaluate that of Keras first.
        notes: What the user should know.
        signatures: Names of the signatures of a SavedModel.
        report: export.json.
        kind: Kind of the set: "image", "tokens" or "packed".
    """

    path: Path
    models: tuple[Measured, ...]
    notes: tuple[str, ...]
    signatures: tuple[str, ...]
    report: Path
    kind: str


def report_of(
    run: Any,
    options: ExportOptions,
    models: tuple[Measured, ...],
    left_out: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
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
        "root_hash": run.root_hash,
        "preprocessing": {
            name: run.manifest.config.get(name)
            for name in (
                *("resize", "enlarge", "resize_filter", "encoding", "quality"),
                *("background", "clean", "dedup_parts", "format"),
            )
            if name in run.manifest.config
        },
        "left_out": list(left_out),
        "models": [dataclasses.asdict(model) for model in models],
    }
