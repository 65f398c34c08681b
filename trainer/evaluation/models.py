"""Runs and exported models behind one interface: a batch in, its outcome out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from foundation.storage import Place, place_of
from reader.transforms.normalization import Normalization
from shard_format import InputError, Manifest, UsageError
from trainer.checkpointing.kept_set import kept_manifest
from trainer.checkpointing.run_dir import RUN
from trainer.export import litert, onnx
from trainer.export.locating import REPORT, saved_model_in
from trainer.export.saved_model import session
from trainer.export.trained_run import open_run
from trainer.objective import Objective

# (inputs, targets, weights) of a batch -> (loss of every target times its weight, predictions)
Outcome = Callable[[Any, Any, Any], tuple[Any, Any]]
_FILES = {".tflite": "tflite", ".onnx": "onnx"}
_BATCH = 32


@dataclasses.dataclass(frozen=True)
class EvaluatedModel:
    """A model that records are measured with.

    Attributes:
        path: File or folder of the model.
        runtime: "keras", "saved-model", "tflite" or "onnx".
        kind: "image", "tokens" or "packed".
        class_names: Name of every output; empty for a language model.
        multi_label: Whether a record has any number of labels.
        options: The options of the run, as far as they are known.
        normalization: What is done to pixels before the model; None for nothing.
        data: The set that the run was trained on; None where nothing says.
        root_hash: Root hash of that set.
        manifest: Manifest of that set, as the run has kept it; None where nothing did.
        tokenizer_folder: Directory with the tokenizer of the training; None where nothing says.
        takes_files: Whether inputs are encoded images as in the set, and not pixels.
        probabilities: From inputs of a batch to [batch, classes], of a network.
        outcome: Measures a batch of so many records.
        batch_size: Records of a batch.
    """

    path: Path
    runtime: str
    kind: str
    class_names: tuple[str, ...]
    multi_label: bool
    options: Mapping[str, Any]
    normalization: Normalization | None
    data: Place | None
    root_hash: str
    manifest: Manifest | None
    tokenizer_folder: Place | None
    probabilities: Callable[[Any], Any]
    outcome: Outcome
    takes_files: bool = False
    batch_size: int = _BATCH


def open_model(path: Path, epoch: str = "last") -> EvaluatedModel:
    """The model in a run or in an export.

    Args:
        path: Directory of a run or of an export (of several versions the latest), a version folder,
            or a .tflite or .onnx file.
        epoch: Which model of a run: a key of `trained_run.EPOCHS`.

    Raises:
        InputError: It is none of these, or cannot be loaded.
        UsageError: There are several models in the directory.
        MissingExtraError: Its runtime is not installed.
    """
    if (path / RUN).is_file():
        return _of_run(path, epoch)
    folder = saved_model_in(path)
    if folder is not None:
        return _exported(folder, folder, "saved-model")
    if path.suffix in _FILES and path.is_file():
        return _exported(path, path.parent, _FILES[path.suffix])
    files = sorted(each for suffix in _FILES for each in path.glob(f"*{suffix}"))
    if len(files) == 1:
        return _exported(files[0], path, _FILES[files[0].suffix])
    if files:
        names = ", ".join(str(each) for each in files)
        raise UsageError(f"{path} holds {len(files)} models. Pass one of {names}.")
    raise InputError(
        f"Neither a run nor an exported model in {path}. Pass the --run-dir of 'shardmill train' "
        "or the --out of 'shardmill export'."
    )


def _of_run(path: Path, epoch: str) -> EvaluatedModel:
    run = open_run(path, epoch)
    objective = Objective(run.model, multi_label=run.multi_label)

    @tf.function(reduce_retracing=True, autograph=False)
    def measured(inputs: Any, targets: Any, weights: Any) -> tuple[Any, Any]:
        outcome = objective.validation(None, inputs, targets, weights)
        return outcome.losses, outcome.predicted

    @tf.function(reduce_retracing=True, autograph=False)
    def probabilities(inputs: Any) -> Any:
        return tf.cast(run.model(inputs, training=False), tf.float32)

    return EvaluatedModel(
        path=run.model_path,
        runtime="keras",
        kind=run.kind,
        class_names=run.class_names,
        multi_label=run.multi_label,
        options=run.options,
        normalization=run.normalization,
        data=run.data,
        root_hash=run.root_hash,
        manifest=run.manifest,
        tokenizer_folder=run.tokenizer_folder,
        probabilities=probabilities,
        outcome=lambda *batch: _arrays(measured(*batch)),
        batch_size=min(_BATCH, int(run.options.get("batch_size") or _BATCH)),
    )


def _exported(path: Path, folder: Path, runtime: str) -> EvaluatedModel:
    """An exported model, described by the export.json in a folder."""
    report = _read_json(folder / REPORT)
    try:
        kind, multi_label = str(report["kind"]), bool(report["multi_label"])
        run = Path(report["options"]["run"]) / RUN
        numbers = report["normalization"]
        normalization = numbers and Normalization(
            numbers["mode"], tuple(numbers["shift"]), tuple(numbers["scale"])
        )
        own = {name: report[name] for name in ("image_size", "max_tokens")}
        names, root_hash = tuple(report["class_names"]), str(report["root_hash"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / REPORT} lacks {error}. Export the run again.") from error
    origin = _read_json(run) if run.is_file() else {}
    data = place_of(origin["data"]) if "data" in origin else None
    kept = kept_manifest(run.parent)
    takes_files = runtime == "saved-model" and kind == "image"
    if runtime == "saved-model":
        probabilities = session(path)
    else:
        probabilities = (litert.interpreter if runtime == "tflite" else onnx.session)(path)
    return EvaluatedModel(
        path=path,
        runtime=runtime,
        kind=kind,
        class_names=names,
        multi_label=multi_label,
        options={**origin.get("options", {}), **own},
        normalization=None if takes_files else normalization,
        data=data,
        root_hash=root_hash,
        manifest=kept,
        tokenizer_folder=run.parent if kept else data,
        probabilities=probabilities,
        outcome=lambda inputs, targets, weights: outcome_of(
            probabilities(inputs), targets, weights, multi_label
        ),
        takes_files=takes_files,
        # Files for other runtimes take one example; of a language model the probabilities of a
        # sequence are [length, vocabulary].
        batch_size=_BATCH if runtime == "saved-model" and kind != "packed" else 1,
    )


def outcome_of(
    probabilities: Any, targets: Any, weights: Any, multi_label: bool
) -> tuple[Any, Any]:
    """(losses times the weights, predictions) of a batch of probabilities [batch, ..., classes]."""
    rows = tf.cast(probabilities, tf.float32)
    if multi_label:
        losses = keras.losses.binary_crossentropy(targets, rows)
        return _arrays((losses, rows > 0.5))
    losses = keras.losses.sparse_categorical_crossentropy(targets, rows)
    return _arrays((losses if weights is None else losses * weights, tf.argmax(rows, axis=-1)))


def _arrays(values: Any) -> tuple[Any, Any]:
    losses, predicted = values
    return np.asarray(losses), np.asarray(predicted, np.int64)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}. Restore it.") from error
