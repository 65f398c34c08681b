"""Where a model is, and whether it is one: answered before TensorFlow is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from shard_format import InputError, UsageError
from trainer.checkpointing.run_dir import BEST, MODEL, RUN

# value of --epoch -> the file of the model
EPOCHS = {"last": MODEL, "best": BEST}
REPORT = "export.json"
# suffix of a file -> what runs it
RUNTIMES = {".tflite": "tflite", ".onnx": "onnx"}
_SAVED = "saved_model.pb"


class RunRecord(NamedTuple):
    """A finished run, as its run.json describes it.

    Attributes:
        model_path: The `.keras` file that is used.
        content: Content of run.json.
        options: Options of the run.
        root_hash: Root hash of the set that it was trained on.
    """

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
        InputError: There is no run, it is unfinished, or its run.json cannot be read.
        UsageError: It has no best epoch.
    """
    _require_directory(directory, "Pass the --run-dir of 'shardmill train'.")
    path = directory / RUN
    if not path.is_file():
        raise InputError(
            f"No {RUN} in {directory}: it is not the directory of a run. Pass the --run-dir of "
            "'shardmill train'."
        )
    content = read_json(path)
    try:
        options, root_hash = dict(content["options"]), str(content["identity"]["root_hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} cannot be read: {error!r}. Restore it.") from error
    model_path = directory / EPOCHS[epoch]
    if not model_path.is_file() and epoch == "last":
        raise InputError(
            f"No {model_path.name} in {directory}: the run is unfinished. Finish it by the same "
            "'shardmill train' command."
        )
    if not model_path.is_file():
        raise UsageError(
            f"No {model_path.name} in {directory}: a run without a validation split has none. Pass "
            "--epoch last."
        )
    return RunRecord(model_path, content, options, root_hash)


def locate(path: Path, epoch: str = "last", *, any_runtime: bool = False) -> Path | None:
    """The folder of a SavedModel, or the file of another runtime; None for a finished run.

    Args:
        path: Directory of a run, of an export (of several versions the latest), of a version, or a
            file of another runtime.
        epoch: Which model of a run: a key of EPOCHS.
        any_runtime: Whether files of other runtimes will do.

    Raises:
        InputError: It is none of these, or the run.json cannot be read.
        UsageError: It is for another runtime, there are several models, or the run has no model of
            this epoch.
    """
    advice = "Pass the --run-dir of 'shardmill train' or the --out of 'shardmill export'."
    if not (any_runtime and path.is_file()):
        _require_directory(path, advice)
    if (path / RUN).is_file():
        read_run(path, epoch)
        return None
    numbers = versions(path)
    folder = path / str(numbers[-1]) if numbers else path
    if (folder / _SAVED).is_file():
        return folder
    files = sorted(each for each in (path, *path.glob("*")) if each.suffix in RUNTIMES)
    if files and not any_runtime:
        raise UsageError(
            f"{path} holds a model for LiteRT or ONNX, which takes pixels or token ids. Pass the "
            "run, or export it with --to saved-model."
        )
    if len(files) > 1:
        names = ", ".join(map(str, files))
        raise UsageError(f"{path} holds {len(files)} models. Pass one of {names}.")
    if not files:
        raise InputError(f"Neither a run nor an exported model in {path}. {advice}")
    return files[0]


def versions(out: Path) -> list[int]:
    """The numbers of the version folders of an export, ascending."""
    if not out.is_dir():
        return []
    return sorted(int(path.name) for path in out.iterdir() if path.name.isdecimal())


def read_json(path: Path) -> Any:
    """The content of a file of a run or an export.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. Restore it.") from error


def _require_directory(path: Path, advice: str) -> None:
    if not path.is_dir():
        raise InputError(f"No directory {path}. {advice}")
