"""To a SavedModel in a version folder, as TensorFlow Serving watches them.

    OUT/1/saved_model.pb, variables/, export.json     the next export makes OUT/2

A version is written under a name that servers ignore and renamed when it is whole.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from inference.export.cleaning import left_out
from inference.export.inputs import image_inputs, text_inputs
from inference.export.locating import versions
from inference.export.trained_run import TrainedRun, in_float32
from shard_format import InputError

SEQUENCES = ("tokens", "segments", "positions")


@dataclasses.dataclass(frozen=True)
class Served:
    """A model with its signatures.

    Attributes:
        module: What is saved.
        signatures: Functions by name.
        left_out: Steps of preprocessing that no signature has, with their parameters.
        notes: What the user should know.
    """

    module: tf.Module
    signatures: dict[str, Any]
    left_out: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


def make_module(run: TrainedRun) -> Served:
    """The model of a run, with what can be before it in a graph."""
    module = tf.Module(name="served")
    model = in_float32(run.model)
    # Variables, for TensorFlow does not find those in the layers of a Keras 3 model.
    module.weights = [variable.value for variable in model.variables]
    if run.kind == "image":
        signatures = {
            name: _signature(
                run, model, tf.TensorSpec([None], tf.string, name="image_bytes"), prepare
            )
            for name, prepare in image_inputs(run).items()
        }
        return Served(module, signatures)
    if run.kind == "packed":
        return Served(module, {"serving_default": _sequence_signature(model)})
    tokens = _signature(
        run, model, tf.TensorSpec([None, None], tf.int64, name="tokens"), lambda ids: ids
    )
    texts = text_inputs(run)
    if isinstance(texts, str):
        note = (
            f"the tokenizer of {run.data} is not in the model: {texts}. serving_default takes "
            "token ids; 'shardmill predict' makes them on the client"
        )
        steps = left_out(run.manifest.config, is_tokenized=False)
        served = Served(module, {"serving_default": tokens}, tuple(steps), (note,))
    else:
        prepare, module.tables = texts
        text = _signature(run, model, tf.TensorSpec([None], tf.string, name="text"), prepare)
        steps = left_out(run.manifest.config, is_tokenized=True)
        served = Served(module, {"serving_default": text, "tokens": tokens}, tuple(steps))
    if not steps:
        return served
    names = ", ".join(dict.fromkeys(step["step"] for step in steps))
    note = (
        f"cleaning steps of the set that are not in the model: {names}. Clean texts by them first"
    )
    return dataclasses.replace(served, notes=(*served.notes, note))


def _signature(run: TrainedRun, model: Any, spec: Any, prepare: Any) -> Any:
    """A signature from a batch of inputs to the outputs of `_outputs`."""

    def serve(batch: Any) -> dict[str, Any]:
        return _outputs(run, model(prepare(batch), training=False))

    return tf.function(serve, input_signature=[spec], autograph=False)


def _outputs(run: TrainedRun, probabilities: Any) -> dict[str, Any]:
    """Probabilities [batch, classes], and the names of the classes in the same places.

    Where a record has one label, also the most probable one: "class" and "probability", [batch].
    """
    names = tf.constant(run.class_names)
    shape = tf.shape(probabilities)
    outputs = {
        "probabilities": probabilities,
        "classes": tf.broadcast_to(names[None], shape),
    }
    if not run.multi_label:
        outputs["class"] = tf.gather(names, tf.argmax(probabilities, axis=1))
        outputs["probability"] = tf.reduce_max(probabilities, axis=1)
    return outputs


def _sequence_signature(model: Any) -> Any:
    """Signature of a language model: packed sequences to the probabilities of the next tokens."""
    length = model.input["tokens"].shape[1]
    specs = [tf.TensorSpec([None, length], tf.int64, name=name) for name in SEQUENCES]

    def serve(tokens: Any, segments: Any, positions: Any) -> dict[str, Any]:
        inputs = {"tokens": tokens, "segments": segments, "positions": positions}
        return {"probabilities": model(inputs, training=False)}

    return tf.function(serve, input_signature=specs, autograph=False)


def write_version(served: Served, out: Path, write_notes: Any) -> Path:
    """The version folder that was made.

    Args:
        served: What is exported.
        out: Directory of the versions.
        write_notes: Function called with the folder before it appears.

    Raises:
        InputError: The folder cannot be written.
    """
    temporary = out / f".export-{os.getpid()}"  # servers take folders with numbers for versions
    try:
        out.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        tf.saved_model.save(served.module, str(temporary), signatures=served.signatures)
        write_notes(temporary)
        return _published(temporary, out)
    except (OSError, tf.errors.OpError) as error:
        raise InputError(
            f"Cannot write to {out}: {error}. Free some space or pass another --out."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_signature(folder: Path, *names: str) -> Any:
    """The first signature of a version folder that has one of these names.

    Raises:
        InputError: The folder cannot be loaded.
    """
    try:
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"Cannot load the model in {folder}: {error}. Export it again.") from error
    call = next(loaded.signatures[name] for name in names if name in loaded.signatures)
    call.loaded = loaded  # which must live as long as its functions
    return call


def session(folder: Path) -> Callable[[Any], Any]:
    """What runs a version folder on records of a set, to probabilities [batch, ..., classes].

    It takes encoded images [batch] string as they are in the set (where that has raw pixels, image
    files), token ids [batch, length], or the inputs of packed sequences by name.

    Raises:
        InputError: The folder cannot be loaded.
    """
    call = load_signature(folder, "stored", "tokens", "serving_default")
    specs = call.structured_input_signature[1]

    def run(batch: Any) -> Any:
        given = batch if isinstance(batch, dict) else dict.fromkeys(specs, batch)
        fed = {name: tf.constant(given[name], spec.dtype) for name, spec in specs.items()}
        return call(**fed)["probabilities"].numpy()

    return run


def _published(temporary: Path, out: Path) -> Path:
    """The folder under the next free number."""
    while True:
        target = out / str(max(versions(out), default=0) + 1)
        try:
            os.rename(temporary, target)
            return target
        except OSError:
            if not target.exists():  # else another export took the number
                raise
