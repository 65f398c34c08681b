"""Predictions for files or texts, by a finished run or by an exported SavedModel."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from foundation.storage import Place
from inference.export.cleaning import cleaning_of
from inference.export.locating import REPORT, locate, read_json
from inference.export.saved_model import load_signature, make_module
from inference.export.trained_run import TrainedRun, in_float32, open_run
from reader.records.tokenizer import make_encoder, read_tokenizer
from reader.records.vocabulary import find_vocabulary
from shard_format import UsageError

_BATCH = 32
_SIGNATURE, _TOKENS = "serving_default", "tokens"
# In a message of TensorFlow: lines that say where an operation failed, and what is before a reason.
_PLACE = re.compile(r"Graph execution error:|Detected at node |<stack traces|File \"|\[\[")
_TAGS = re.compile(r"^(\(\d+\) \w+: +)?(\{\{.*?\}\} *)*")


class Clean(Protocol):
    """Cleans texts as those of a set were: `beam_jobs.text.recleaning.TextCleaner`.

    Attributes:
        notes: What it does not do, for people.
    """

    notes: list[str]

    def __call__(
        self, documents: Sequence[tuple[str, str]], are_files: bool
    ) -> Sequence[tuple[str, str]]:
        """(name, text) of documents -> (cleaned text, why the set would leave it out, or "")."""


# config of a manifest -> what cleans texts as those of its set were
MakeClean = Callable[[Mapping[str, Any]], Clean]


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The classes of one file or text.

    Attributes:
        name: The file, or the text.
        classes: Names and probabilities, the most probable first; empty if it cannot be read.
        error: Why it cannot be read; empty if it can.
        rejection: Why preprocessing would have left the text out of a set; empty if it would not.
    """

    name: str
    classes: tuple[tuple[str, float], ...]
    error: str = ""
    rejection: str = ""


@dataclasses.dataclass(frozen=True)
class Predictor:
    """A model that predicts classes.

    Attributes:
        kind: "image" or "tokens".
        multi_label: Whether an example may be of any number of classes.
        class_names: Names of the probabilities.
        probabilities: [batch] strings -> [batch, classes].
        clean: Cleans texts first; None for what the model does alone.
    """

    kind: str
    multi_label: bool
    class_names: tuple[str, ...]
    probabilities: Callable[[Sequence[bytes]], Any]
    clean: Clean | None = None

    def predict(
        self, inputs: Iterable[tuple[str, bytes]], *, are_files: bool = True
    ) -> Iterator[Prediction]:
        """The predictions of (name, content) pairs, in order; one batch is held in memory.

        Args:
            inputs: Image files, or texts in UTF-8.
            are_files: Whether texts are whole files, which may be HTML.
        """
        left = iter(inputs)
        while batch := list(itertools.islice(left, _BATCH)):
            if self.clean is None:
                yield from self._predict(batch)
                continue
            documents = [(name, content.decode()) for name, content in batch]
            cleaned = self.clean(documents, are_files)
            texts = [
                (name, text.encode()) for (name, _), (text, _) in zip(batch, cleaned, strict=True)
            ]
            for prediction, (_, rejection) in zip(self._predict(texts), cleaned, strict=True):
                yield dataclasses.replace(prediction, rejection=rejection)

    def _predict(self, batch: list[tuple[str, bytes]]) -> Iterator[Prediction]:
        try:
            rows = self.probabilities([content for _, content in batch])
        except tf.errors.OpError:
            yield from map(self._alone, batch)  # one of them cannot be read
            return
        yield from (self._named(name, row) for (name, _), row in zip(batch, rows, strict=True))

    def _alone(self, item: tuple[str, bytes]) -> Prediction:
        name, content = item
        try:
            return self._named(name, self.probabilities([content])[0])
        except tf.errors.OpError as error:
            return Prediction(name, (), f"not an image that can be decoded: {_reason(error)}")

    def _named(self, name: str, row: Any) -> Prediction:
        order = np.argsort(-row, kind="stable")
        return Prediction(name, tuple((self.class_names[n], float(row[n])) for n in order))


def open_predictor(
    path: Path,
    epoch: str = "last",
    data: Place | None = None,
    make_clean: MakeClean | None = None,
) -> Predictor:
    """A predictor with the model in a directory.

    Args:
        path: Directory of a run, an export to saved-model (the latest version), or one version.
        epoch: Epoch of a run: which of its models.
        data: Shard set of a run of an earlier version, if the set has moved.
        make_clean: Makes what cleans texts first. Without it, they are cleaned as in a graph.

    Raises:
        UsageError: It is an export to another target, or a language model.
        InputError: It is neither, or cannot be loaded.
    """
    folder = locate(path, epoch)
    if folder is None:
        return _of_run(open_run(path, epoch, data), make_clean)
    return _of_export(folder, make_clean)


def _of_run(run: TrainedRun, make_clean: MakeClean | None) -> Predictor:
    _require_classes(run.kind, run.directory)
    options = (run.kind, run.multi_label, run.class_names)
    if run.kind == "tokens":
        config = run.manifest.config
        clean = make_clean(config) if make_clean else None
        return Predictor(*options, _tokenized(run, {} if clean else config), clean)
    call = make_module(run).signatures[_SIGNATURE]
    return Predictor(*options, lambda batch: call(tf.constant(batch))["probabilities"].numpy())


def _of_export(folder: Path, make_clean: MakeClean | None) -> Predictor:
    report = read_json(folder / REPORT)
    _require_classes(report["kind"], folder)
    call = load_signature(folder, _SIGNATURE)
    (name,) = call.structured_input_signature[1]
    if name == _TOKENS:
        raise UsageError(
            f"The model in {folder} takes token ids, for its tokenizer could not be in it. Pass "
            "the run in place of the export."
        )

    return Predictor(
        report["kind"],
        report["multi_label"],
        tuple(report["class_names"]),
        lambda batch: call(**{name: tf.constant(batch)})["probabilities"].numpy(),
        make_clean(report["preprocessing"]) if make_clean and report["kind"] == "tokens" else None,
    )


def _tokenized(run: TrainedRun, config: Mapping[str, Any]) -> Callable[[Sequence[bytes]], Any]:
    """Function of texts: the cleaning of a config as far as a graph has it, and the tokenizer."""
    folder = run.tokenizer_folder
    encode, clean = make_encoder(*read_tokenizer(folder)), cleaning_of(config)
    padding = find_vocabulary(folder, run.manifest).padding
    most = int(run.options["max_tokens"])
    model = in_float32(run.model)
    spec = tf.TensorSpec([None, None], tf.int64)
    call = tf.function(lambda ids: model(ids, training=False), [spec], autograph=False)

    def probabilities(batch: Sequence[bytes]) -> Any:
        texts = clean(tf.constant(batch)).numpy()
        rows = [ids[:most] for ids in encode([text.decode() for text in texts])]
        ids = np.full((len(rows), max(1, *map(len, rows))), padding, np.int64)
        for row, values in zip(ids, rows, strict=True):
            row[: len(values)] = values
        return call(tf.constant(ids)).numpy()

    return probabilities


def _reason(error: Any) -> str:
    """What an operation of a graph says, without the places in graph and program around it."""
    said = str(error.message).partition("\n\t [[")[0].splitlines()
    told = [line.strip() for line in said if line.strip() and not _PLACE.match(line.strip())]
    reason = _TAGS.sub("", told[-1]) if told else ""
    failed = re.fullmatch(r"assertion failed: \[(.*)\]", reason)
    return (
        failed[1] if failed else reason
    ) or f"TensorFlow does not say why ({type(error).__name__})"


def _require_classes(kind: str, where: Path) -> None:
    if kind == "packed":
        raise UsageError(
            f"{where} holds a language model, which predicts no classes. Pass a classifier, or "
            "load the export with tf.saved_model.load."
        )
