"""Where a model is, and whether it is one: answered before TensorFlow is loaded."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from shard_format import InputError, UsageError
from trainer.checkpointing.run_dir import BEST, MODEL, RUN

# value of --epoch -> the file of the model
EPOCHS = {"last": MODEL, "best": BEST}
REPORT = "export.json"
_SAVED = "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """A finished run, as its run.json describes it.

    Attributes:
        directory: Directory of the run.
        model_path: The `.keras` file that is used.
        content: Content of run.json.
        options: Options of the run.
        root_hash: Root hash of the set that it was trained on.
    """

    directory: Path
    model_path: Path
    content: dict[str, Any]
    options: dict[str, Any]
    root_hash: str


def read_run(directory: Path, epoch: str = "last") -> RunRecord:
    """The record of a finished run.

    Args:
        directory: Directory of the run.
        epoch: A key of EPOCHS.

    Raises:
        InputError: There is no run, or its run.json cannot be read.
        UsageError: It has no model of this epoch.
    """
    _require_directory(directory, "Pass the --run-dir of 'shardmill train'.")
    path = directory / RUN
    if not path.is_file():
        raise InputError(
            f"No {RUN} in {directory}: it is not the directory of a run. Pass the --run-dir of "
            "'shardmill train'."
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        options, root_hash = dict(content["options"]), str(content["identity"]["root_hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}. Restore it.") from error
    model_path = directory / EPOCHS[epoch]
    if not model_path.is_file():
        advice = (
            "Finish it with the same 'shardmill train' command."
            if epoch == "last"
            else "A run without a validation split has none; pass --epoch last."
        )
        raise UsageError(f"No {model_path.name} in {directory}. {advice}")
    return RunRecord(directory, model_path, content, options, root_hash)


def locate(path: Path, epoch: str = "last") -> RunRecord | Path:
    """A finished run, or the folder of a SavedModel.

    Args:
        path: Directory of a run, of an export to saved-model (the latest version), or of a version.
        epoch: Which model of a run: a key of EPOCHS.

    Raises:
        InputError: It is neither, or the run.json cannot be read.
        UsageError: It is an export to another target, or a run without a model of this epoch.
    """
    advice = "Pass the --run-dir of 'shardmill train' or the --out of 'shardmill export'."
    _require_directory(path, advice)
    if (path / RUN).is_file():
        return read_run(path, epoch)
    folder = saved_model_in(path)
    if folder is not None:
        return folder
    if (path / REPORT).is_file():
        raise UsageError(
            f"{path} holds a model for LiteRT or ONNX, which takes pixels or token ids. Pass the "
            "run, or export it with --to saved-model."
        )
    raise InputError(f"Neither a run nor an exported model in {path}. {advice}")


def saved_model_in(path: Path) -> Path | None:
    """The folder of a SavedModel: the latest version in an export, or the path itself."""
    numbers = versions(path)
    folder = path / str(numbers[-1]) if numbers else path
    return folder if (folder / _SAVED).is_file() else None


def versions(out: Path) -> list[int]:
    """The numbers of the version folders of an export, ascending."""
    if not out.is_dir():
        return []
    return sorted(int(path.name) for path in out.iterdir() if path.name.isdecimal())


def _require_directory(path: Path, advice: str) -> None:
    if not path.is_dir():
        raise InputError(f"No directory {path}. {advice}")
