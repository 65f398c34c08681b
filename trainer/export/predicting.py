"""Predictions for files or texts, by a finished run or by an exported SavedModel."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from reader.records.tokenizer import make_encoder, read_tokenizer
from reader.records.vocabulary import find_vocabulary
from shard_format import InputError, UsageError
from shard_format.storage import Place
from trainer.checkpointing.run_dir import RUN
from trainer.export.inputs import cleaning_of
from trainer.export.result import REPORT
from trainer.export.saved_model import make_module, versions
from trainer.export.trained_run import TrainedRun, open_run

_BATCH = 32
_SIGNATURE, _TOKENS = "serving_default", "tokens"
_SAVED = "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Of one file or text.

    Attributes:
        name: The file, or the text.
        classes: Names and probabilities, the most probable first; empty if it cannot be read.
        error: Why it cannot be read; empty if it can.
    """

    name: str
    classes: tuple[tuple[str, float], ...]
    error: str = ""


@dataclasses.dataclass(frozen=True)
class Predictor:
    """What predicts.

    Attributes:
        kind: "image" or "tokens".
        multi_label: Whether an example may be of any number of classes.
        class_names: Of the probabilities.
        probabilities: [batch] strings -> [batch, classes].
    """

    kind: str
    multi_label: bool
    class_names: tuple[str, ...]
    probabilities: Callable[[Sequence[bytes]], Any]

    def predict(self, inputs: Iterable[tuple[str, bytes]]) -> Iterator[Prediction]:
        """The predictions of (name, content) pairs, in order; one batch is held in memory."""
        left = iter(inputs)
        while batch := list(itertools.islice(left, _BATCH)):
            try:
                rows = self.probabilities([content for _, content in batch])
            except tf.errors.OpError:
                yield from map(self._alone, batch)  # one of them cannot be read
                continue
            yield from (self._named(name, row) for (name, _), row in zip(batch, rows, strict=True))

    def _alone(self, item: tuple[str, bytes]) -> Prediction:
        name, content = item
        try:
            return self._named(name, self.probabilities([content])[0])
        except tf.errors.OpError as error:
            reason = _reason(str(error.message))
            return Prediction(name, (), f"not an image that can be decoded: {reason}")

    def _named(self, name: str, row: Any) -> Prediction:
        order = np.argsort(-row, kind="stable")
        return Prediction(name, tuple((self.class_names[n], float(row[n])) for n in order))


def open_predictor(path: Path, epoch: str = "last", data: Place | None = None) -> Predictor:
    """What predicts with the model in a directory.

    Args:
        path: Of a run, of an export to saved-model (the latest version), or of one version.
        epoch: Of a run: which model.
        data: Of a run: the shard set, if it has moved.

    Raises:
        UsageError: It is neither, or a language model.
        InputError: It cannot be loaded.
    """
    if (path / RUN).is_file():
        return _of_run(open_run(path, epoch, data))
    found = versions(path)
    folder = path if (path / _SAVED).is_file() else path / str(found[-1]) if found else path
    if (folder / _SAVED).is_file():
        return _of_export(folder, data)
    if (path / REPORT).is_file():
        raise UsageError(
            f"{path} holds a model for LiteRT or ONNX, which takes pixels or token ids. Pass the "
            "run, or export it with --to saved-model."
        )
    raise UsageError(
        f"Neither a run nor an exported model in {path}. Pass the --run-dir of 'shardmill train' "
        "or the --out of 'shardmill export'."
    )


def _of_run(run: TrainedRun) -> Predictor:
    _require_classes(run.kind, run.directory)
    _, signatures, _ = make_module(run)
    options = (run.kind, run.multi_label, run.class_names)
    call = signatures[_SIGNATURE]
    if run.kind == "tokens" and _TOKENS not in signatures:
        return Predictor(*options, _tokenized(call, run.data, run))
    return Predictor(*options, lambda batch: call(tf.constant(batch))["probabilities"].numpy())


def _of_export(folder: Path, data: Place | None) -> Predictor:
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        loaded = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise InputError(f"Cannot load the model in {folder}: {error}. Export it again.") from error
    _require_classes(report["kind"], folder)
    call = loaded.signatures[_SIGNATURE]
    (name,) = call.structured_input_signature[1]
    if name == _TOKENS:
        raise UsageError(
            f"The model in {folder} takes token ids, for its tokenizer could not be in it. Pass "
            "the run in place of the export."
        )

    def probabilities(batch: Sequence[bytes]) -> Any:
        return call(**{name: tf.constant(batch)})["probabilities"].numpy()

    classes = tuple(report["class_names"])
    # The module must live as long as its functions.
    probabilities.loaded = loaded  # type: ignore[attr-defined]
    return Predictor(report["kind"], report["multi_label"], classes, probabilities)


def _tokenized(call: Any, data: Place, run: TrainedRun) -> Callable[[Sequence[bytes]], Any]:
    """With the tokenizer of the set, in this process."""
    encode, clean = make_encoder(*read_tokenizer(data)), cleaning_of(run)
    padding = find_vocabulary(data, run.manifest).padding
    most = int(run.options["max_tokens"])

    def probabilities(batch: Sequence[bytes]) -> Any:
        rows = [
            ids[:most] for ids in encode([text.decode() for text in clean(list(batch)).numpy()])
        ]
        ids = np.full((len(rows), max(1, *map(len, rows))), padding, np.int64)
        for row, values in zip(ids, rows, strict=True):
            row[: len(values)] = values
        return call(tf.constant(ids))["probabilities"].numpy()

    return probabilities


def _reason(message: str) -> str:
    """What an operation of a graph says, without the places in graph and program around it."""
    said = message.partition("\n\t [[")[0].strip().splitlines() or ["no message"]
    reason = re.sub(r"^(\(\d+\) \w+: )?(\{\{.*?\}\} )?", "", said[-1].strip())
    failed = re.fullmatch(r"assertion failed: \[(.*)\]", reason)
    return failed[1] if failed else reason


def _require_classes(kind: str, where: Path) -> None:
    if kind == "packed":
        raise UsageError(
            f"{where} holds a language model, which predicts no classes. Pass a classifier, or "
            "load the export with tf.saved_model.load."
        )
