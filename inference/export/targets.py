"""The targets of an export; `options.TARGETS` names them."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from inference.evaluation.evaluating import network_inputs
from inference.evaluation.models import exported, of_run
from inference.export import litert, onnx
from inference.export.locating import REPORT
from inference.export.measuring import evaluated, measure
from inference.export.options import ExportOptions
from inference.export.result import ExportedModel, Measured, OnProgress, report_of
from inference.export.saved_model import make_module, write_version
from inference.export.trained_run import TrainedRun, in_float32
from shard_format import InputError, Manifest, UsageError
from trainer.checkpointing.run_dir import write_json

_LABELS = "labels.txt"


def to_saved_model(
    run: TrainedRun, options: ExportOptions, on_progress: OnProgress
) -> ExportedModel:
    """A version folder with signatures that take raw bytes or texts."""
    manifest = _evaluated_set(run, options)
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
    models = _measured(run, options, manifest, {options.to: path})
    write_report(path, models)
    on_progress("done", 2, 2)
    return ExportedModel(
        path, models, served.notes, tuple(served.signatures), path / REPORT, run.kind
    )


def to_tflite(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """One LiteRT file for each quantization."""
    _require_classifier(run, options)
    asked = options.quantize.split(",")
    manifest = _evaluated_set(run, options)
    model, spec = in_float32(run.model), _one_input(run)

    notes, calibrating = [], run.manifest
    if "int8" in asked:
        calibrating = run.open_set("--quantize int8", may_differ=True)
        if calibrating.root_hash != run.root_hash:
            notes.append(f"int8 was calibrated on {run.data}, which has changed since the training")

    def records() -> Iterator[list[Any]]:
        split = run.options.get("train_split", "train")
        batches = network_inputs(run, run.data, calibrating, split, None, batch_size=1)
        for value, _, _ in itertools.islice(batches, options.calibration):
            yield [value.astype(spec.dtype.as_numpy_dtype)]

    paths = {}
    for number, name in enumerate(asked):
        on_progress(f"converting, --quantize {name}", number, len(asked))
        content = litert.convert(model, spec, name, records)
        paths[name] = _written(options.out / f"model-{name}.tflite", content)
    done = _finished(run, options, _measured(run, options, manifest, paths))
    on_progress("done", len(asked), len(asked))
    return dataclasses.replace(done, notes=tuple(notes))


def to_onnx(run: TrainedRun, options: ExportOptions, on_progress: OnProgress) -> ExportedModel:
    """One ONNX file."""
    _require_classifier(run, options)
    manifest = _evaluated_set(run, options)
    on_progress("converting", 1, 2)
    spec, path = _one_input(run), options.out / "model.onnx"
    onnx.write_onnx(in_float32(run.model), np.zeros(spec.shape, spec.dtype.as_numpy_dtype), path)
    done = _finished(run, options, _measured(run, options, manifest, {options.to: path}))
    on_progress("done", 2, 2)
    return done


def _require_classifier(run: TrainedRun, options: ExportOptions) -> None:
    if run.kind == "packed":
        raise UsageError(
            f"{run.directory} holds a language model, and --to {options.to} is for classifiers of "
            "images and token ids. Pass --to saved-model."
        )


def _evaluated_set(run: TrainedRun, options: ExportOptions) -> Manifest | None:
    """The manifest of the set for --evaluate; None without it.

    Raises:
        UsageError: The run has nothing to measure on, or is of a language model.
        ShardSetError: The set is not there, or it is another one now.
    """
    if not options.evaluate:
        return None
    if run.kind == "packed":
        raise UsageError(
            f"--evaluate measures classifiers, and {run.directory} holds a language model. Leave "
            "it out."
        )
    manifest = run.open_set("--evaluate")
    if run.evaluation_split is None:
        raise UsageError(
            f"The run in {run.directory} was validated on no split, which --evaluate measures on. "
            "Leave it out, and run 'shardmill evaluate' on the export."
        )
    return manifest


def _one_input(run: TrainedRun) -> Any:
    if run.kind == "image":
        side = int(run.options["image_size"])
        return tf.TensorSpec([1, side, side, 3], tf.float32, name="pixels")
    return tf.TensorSpec([1, int(run.options["max_tokens"])], tf.int32, name="tokens")


def _measured(
    run: TrainedRun, options: ExportOptions, manifest: Manifest | None, paths: Mapping[str, Path]
) -> tuple[Measured, ...]:
    """Exported models by name; with a set to measure on, behind the row of Keras."""
    rows = [measure(name, path) for name, path in paths.items()]
    if manifest is None:
        return tuple(rows)
    models = [of_run(run, in_float32(run.model))]
    models += [exported(path, options.to, run) for path in paths.values()]
    rows = [measure("keras", run.model_path), *rows]
    return tuple(
        evaluated(row, model, run, manifest, options.max_records)
        for row, model in zip(rows, models, strict=True)
    )


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
