"""Runs and exported models behind one interface: a batch in, its outcome out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from foundation.storage import place_of
from inference.export import litert, onnx
from inference.export.locating import REPORT, RUNTIMES, locate, read_json
from inference.export.saved_model import session
from inference.export.trained_run import ModelDescription, TrainedRun, normalization_of, open_run
from shard_format import InputError
from trainer.checkpointing.kept_set import kept_manifest
from trainer.checkpointing.run_dir import RUN
from trainer.objective import Objective

# (inputs, targets, weights) of a batch -> (loss of every target times its weight, predictions)
Outcome = Callable[[Any, Any, Any], tuple[Any, Any]]
_BATCH = 32
# runtime -> what opens a model, to a function from inputs to probabilities
_RUNTIMES: dict[str, Callable[[Path], Callable[[Any], Any]]] = {
    "saved-model": session,
    "tflite": litert.interpreter,
    "onnx": onnx.session,
}


@dataclasses.dataclass(frozen=True)
class EvaluatedModel:
    """A model that records are measured with.

    Attributes:
        path: File or folder of the model.
        runtime: "keras", "saved-model", "tflite" or "onnx".
        about: What is known of it.
        probabilities: From inputs of a batch to [batch, classes], of a network.
        outcome: Measures a batch of so many records.
        takes_files: Whether inputs are encoded images as in the set, and not pixels.
        batch_size: Records of a batch.
    """

    path: Path
    runtime: str
    about: ModelDescription
    probabilities: Callable[[Any], Any]
    outcome: Outcome
    takes_files: bool = False
    batch_size: int = _BATCH


def open_model(path: Path, epoch: str = "last") -> EvaluatedModel:
    """The model in a run or in an export.

    Args:
        path: Directory of a run or of an export (of several versions the latest), a version folder,
            or a .tflite or .onnx file.
        epoch: Which model of a run: a key of `inference.export.locating.EPOCHS`.

    Raises:
        InputError: It is none of these, or cannot be loaded.
        UsageError: There are several models in the directory.
        MissingExtraError: Its runtime is not installed.
    """
    location = locate(path, epoch, any_runtime=True)
    if location is None:
        run = open_run(path, epoch)
        return of_run(run, run.model)
    if location.is_dir():
        return exported(location, "saved-model", _described(location))
    return exported(location, RUNTIMES[location.suffix], _described(location.parent))


def of_run(run: TrainedRun, model: Any) -> EvaluatedModel:
    """The Keras model of a run, or a copy of it."""
    objective = Objective(model, multi_label=run.multi_label)

    @tf.function(reduce_retracing=True, autograph=False)
    def measured(inputs: Any, targets: Any, weights: Any) -> tuple[Any, Any]:
        outcome = objective.validation(None, inputs, targets, weights)
        return outcome.losses, outcome.predicted

    @tf.function(reduce_retracing=True, autograph=False)
    def probabilities(inputs: Any) -> Any:
        return tf.cast(model(inputs, training=False), tf.float32)

    return EvaluatedModel(
        path=run.model_path,
        runtime="keras",
        about=run,
        probabilities=probabilities,
        outcome=lambda *batch: _arrays(measured(*batch)),
        batch_size=min(_BATCH, int(run.options.get("batch_size") or _BATCH)),
    )


def _described(folder: Path) -> ModelDescription:
    """What export.json says in a folder, and the run if it is still there."""
    report = read_json(folder / REPORT)
    try:
        run = Path(report["options"]["run"])
        origin = read_json(run / RUN) if (run / RUN).is_file() else {}
        data = place_of(origin["data"]) if "data" in origin else None
        kept = kept_manifest(run)
        own = {name: report[name] for name in ("image_size", "max_tokens")}
        return ModelDescription(
            kind=str(report["kind"]),
            class_names=tuple(report["class_names"]),
            multi_label=bool(report["multi_label"]),
            options={**origin.get("options", {}), **own},
            normalization=normalization_of(report["normalization"]),
            data=data,
            root_hash=str(report["root_hash"]),
            manifest=kept,
            tokenizer_folder=run if kept else data,
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / REPORT} lacks {error}. Export the run again.") from error


def exported(path: Path, runtime: str, about: ModelDescription) -> EvaluatedModel:
    """An exported model.

    Args:
        path: A version folder, or the file of another runtime.
        runtime: "saved-model", "tflite" or "onnx".
        about: What is known of it.

    Raises:
        InputError: It cannot be loaded.
        MissingExtraError: Its runtime is not installed.
    """
    takes_files = runtime == "saved-model" and about.kind == "image"
    probabilities = _RUNTIMES[runtime](path)
    return EvaluatedModel(
        path=path,
        runtime=runtime,
        about=about,
        probabilities=probabilities,
        outcome=lambda inputs, targets, weights: outcome_of(
            probabilities(inputs), targets, weights, about.multi_label
        ),
        takes_files=takes_files,
        # Files for other runtimes take one example; of a language model the probabilities of a
        # sequence are [length, vocabulary].
        batch_size=_BATCH if runtime == "saved-model" and about.kind != "packed" else 1,
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
