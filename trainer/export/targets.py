"""The targets of an export, by the value of --to."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from shard_format import InputError, UsageError
from trainer.checkpointing.run_dir import write_json
from trainer.export import litert, onnx
from trainer.export.locating import REPORT
from trainer.export.measuring import Measured, examples_of, image_files, measure
from trainer.export.options import ExportOptions
from trainer.export.result import ExportedModel, OnProgress, report_of
from trainer.export.saved_model import make_module, session, write_version
from trainer.export.trained_run import TrainedRun, in_float32

Target = Callable[[TrainedRun, ExportOptions, OnProgress], ExportedModel]
_LABELS = "labels.txt"


def to_saved_model(
    run: TrainedRun, options: ExportOptions, on_progress: OnProgress
) -> ExportedModel:
    """A version folder with signatures that take raw bytes or texts."""
    examples = _examples(run, options, on_progress)
    on_progress("writing the signatures", 1, 2)
    served = make_module(run)
    if options.strict and served.left_out:
        names = ", ".join(dict.fromkeys(step["step"] for step in served.left_out))
        raise InputError(
            f"The set of {run.directory} was cleaned by steps that a graph cannot have: {names}. "
            "Leave --strict out and clean texts before they are sent, or build the set without."
        )

    def write_report(folder: Path, models: tuple[Measured, ...] = ()) -> None:
        write_json(folder / REPORT, report_of(run, options, models, served.left_out))

    path = write_version(served, options.out, write_report)
    loaded = tf.saved_model.load(str(path))
    models = (
        *_of_keras(run, examples),
        measure(options.to, path, session(path) if examples else None, _served(run, examples)),
    )
    write_report(path, models)
    on_progress("done", 2, 2)
    return ExportedModel(
        path, models, served.notes, tuple(loaded.signatures), path / REPORT, run.kind
    )


def _served(run: TrainedRun, examples: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The examples as a SavedModel takes them: of images the files in the set."""
    split = run.evaluation_split
    if run.kind != "image" or split is None or not examples:
        return examples
    files = image_files(run.data, run.open_set("--evaluate"), split)
    pairs = zip(files, examples, strict=False)  # of --max-records, fewer examples
    return [(np.array([file], object), label) for (file, _), (_, label) in pairs]


def to_tflite(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """One LiteRT file for each quantization."""
    _require_classifier(run, options)
    asked = options.quantize.split(",")
    examples = _examples(run, options, on_progress)
    model = in_float32(run.model)

    notes, manifest = [], run.manifest
    if "int8" in asked:
        manifest = run.open_set("--quantize int8", may_differ=True)
        if manifest.root_hash != run.root_hash:
            notes.append(f"int8 was calibrated on {run.data}, which has changed since the training")

    def records() -> Iterator[list[Any]]:
        split = run.options.get("train_split", "train")
        for value, _ in examples_of(run, manifest, split, options.calibration):
            yield [value]

    models = list(_of_keras(run, examples))
    for number, name in enumerate(asked):
        on_progress(f"converting, --quantize {name}", number, len(asked))
        content = litert.convert(model, _one_input(run), name, records)
        path = _written(options.out / f"model-{name}.tflite", content)
        predict = litert.interpreter(path) if examples else None
        on_progress(f"measuring, --quantize {name}", number, len(asked))
        models.append(measure(name, path, predict, examples))
    on_progress("done", len(asked), len(asked))
    return dataclasses.replace(_finished(run, options, tuple(models)), notes=tuple(notes))


def to_onnx(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """One ONNX file."""
    _require_classifier(run, options)
    examples = _examples(run, options, on_progress)
    on_progress("converting", 1, 2)
    spec = _one_input(run)
    path = options.out / "model.onnx"
    onnx.write_onnx(in_float32(run.model), np.zeros(spec.shape, spec.dtype.as_numpy_dtype), path)
    predict = onnx.session(path) if examples else None
    models = (*_of_keras(run, examples), measure(options.to, path, predict, examples))
    on_progress("done", 2, 2)
    return _finished(run, options, models)


# value of --to -> what exports
TARGETS: dict[str, Target] = {
    "saved-model": to_saved_model,
    "tflite": to_tflite,
    "onnx": to_onnx,
}


def _require_classifier(run: TrainedRun, options: ExportOptions) -> None:
    if run.kind == "packed":
        raise UsageError(
            f"{run.directory} holds a language model, and --to {options.to} is for classifiers of "
            "images and token ids. Pass --to saved-model."
        )


def _examples(
    run: TrainedRun, options: ExportOptions, on_progress: OnProgress
) -> list[tuple[Any, Any]]:
    if not options.evaluate:
        return []
    if run.kind == "packed":
        raise UsageError(
            f"--evaluate measures classifiers, and {run.directory} holds a language model. Leave "
            "it out."
        )
    on_progress("reading the validation split", 0, 2)
    manifest = run.open_set("--evaluate")
    return list(examples_of(run, manifest, run.evaluation_split, options.max_records))


def _one_input(run: TrainedRun) -> Any:
    if run.kind == "image":
        side = int(run.options["image_size"])
        return tf.TensorSpec([1, side, side, 3], tf.float32, name="pixels")
    return tf.TensorSpec([1, int(run.options["max_tokens"])], tf.int32, name="tokens")


def _of_keras(run: TrainedRun, examples: list[tuple[Any, Any]]) -> tuple[Measured, ...]:
    """The row to compare with."""
    if not examples:
        return ()
    model = in_float32(run.model)
    call = tf.function(lambda value: model(value, training=False), autograph=False)
    return (measure("keras", run.model_path, lambda value: call(value).numpy(), examples),)


def _written(path: Path, content: bytes) -> Path:
    """The file, which appears whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {error}. Free some space or pass another --out."
        ) from error
    return path


def _finished(
    run: TrainedRun, options: ExportOptions, models: tuple[Measured, ...]
) -> ExportedModel:
    """Writes the names of the classes and export.json into the directory."""
    names = "".join(f"{name}\n" for name in run.class_names)
    _written(options.out / _LABELS, names.encode())
    write_json(options.out / REPORT, report_of(run, options, models))
    return ExportedModel(options.out, models, (), (), options.out / REPORT, run.kind)
