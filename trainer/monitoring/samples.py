"""The model's predictions of a few validation examples, the same ones after every epoch."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer.models.calling import called

# Batches from whose records the examples are drawn: more would delay the start of a run.
_BATCHES = 8
_IMAGE_RANK = 3
_SHOWN_TOKENS = 12  # of a sequence before the predicted one

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class SamplePrediction:
    """Prediction for one example.

    Attributes:
        image: [height, width, 3] uint8; None of texts.
        text: The document, or the end of what a language model has read; empty of images.
        true: Class, classes, or next token of the example.
        predicted: The same as the model has it.
        probability: Probability of the prediction, in [0, 1]; of several classes the least.
    """

    image: Array | None
    text: str
    true: str
    predicted: str
    probability: float

    @property
    def is_right(self) -> bool:
        """Whether it was predicted right."""
        return self.true == self.predicted


class Samples:
    """Some validation examples, drawn by the seed.

    Args:
        dataset: Batches of the validation; the first ones are read.
        count: Number of examples.
        seed: Seed of the draw.
        class_names: Names of the outputs; empty for a language model.
        text_of: Function from token ids to text.
        at_once: Sequences that are called together.
    """

    def __init__(
        self,
        dataset: Any,
        count: int,
        seed: int,
        class_names: Sequence[str],
        text_of: Callable[[Sequence[int]], str],
        at_once: int = 1,
    ) -> None:
        self._class_names = class_names
        self._text_of = text_of
        self._at_once = at_once
        self._inputs, self._targets = _drawn(dataset, count, seed)

    def predict(self, model: Any) -> list[SamplePrediction]:
        """What a model predicts of them now.

        Args:
            model: Model to probabilities.
        """
        outputs_by_index: dict[int, Array] = {}
        for group in self._groups():
            inputs = tf.nest.map_structure(_stacked, *(self._inputs[index] for index in group))
            outputs = np.asarray(keras.ops.cast(called(model, inputs), "float32"))
            outputs_by_index |= dict(zip(group, outputs, strict=True))
        rows = zip(self._inputs, self._targets, strict=True)
        return [self._prediction(*row, outputs_by_index[index]) for index, row in enumerate(rows)]

    def _groups(self) -> list[list[int]]:
        """Examples of one shape, which are called together; of sequences a few at a time."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for index, inputs in enumerate(self._inputs):
            shape = (index // self._at_once,) if isinstance(inputs, dict) else inputs.shape
            groups.setdefault(shape, []).append(index)
        return list(groups.values())

    def _prediction(self, inputs: Any, target: Array, probabilities: Array) -> SamplePrediction:
        if not self._class_names:
            return self._next_token(inputs, target, probabilities)
        image, text = None, ""
        if inputs.ndim == _IMAGE_RANK:
            image = _pixels(inputs)
        else:
            text = self._text_of(inputs.tolist())
        if target.ndim:  # any number of labels
            chosen = np.flatnonzero(probabilities > 0.5)
            certain = float(probabilities[chosen].min()) if chosen.size else 1.0
            true = self._names(np.flatnonzero(target >= 0.5))
            return SamplePrediction(image, text, true, self._names(chosen), certain)
        best = int(probabilities.argmax())
        return SamplePrediction(
            image,
            text,
            self._class_names[int(target)],
            self._class_names[best],
            float(probabilities[best]),
        )

    def _names(self, classes: Array) -> str:
        return ", ".join(self._class_names[index] for index in classes) or "none"

    def _next_token(self, inputs: Any, targets: Array, probabilities: Array) -> SamplePrediction:
        """Prediction of the token in the middle of the first document of a sequence."""
        length = max(1, int((inputs["segments"] == inputs["segments"][0]).sum()))
        place = length // 2
        best = int(probabilities[place].argmax())
        return SamplePrediction(
            None,
            self._text_of(inputs["tokens"][max(0, place + 1 - _SHOWN_TOKENS) : place + 1].tolist()),
            self._text_of([int(targets[place])]),
            self._text_of([best]),
            float(probabilities[place][best]),
        )


def table(predictions: Sequence[SamplePrediction]) -> str:
    """Predictions of texts as a table of Markdown."""
    rows = ["| text | true | predicted | probability |", "| --- | --- | --- | ---: |"]
    for one in predictions:
        predicted = _cell(one.predicted) if one.is_right else f"**{_cell(one.predicted)}**"
        cells = (_cell(one.text), _cell(one.true), predicted, f"{one.probability:.1%}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


_CELL = 200  # characters


def _cell(text: str) -> str:
    text = " ".join(text.split()) or "(no text)"
    if len(text) > _CELL:
        text = f"{text[: _CELL - 1]}…"
    for mark in "\\`*_|<>[]#&$":
        text = text.replace(mark, f"\\{mark}")
    return text


def _drawn(dataset: Any, count: int, seed: int) -> tuple[list[Any], list[Array]]:
    """(inputs, targets) of examples among the first batches, without a batch dimension."""
    inputs: list[Any] = []
    targets: list[Array] = []
    for batch in dataset.take(_BATCHES):
        weights = batch[2].numpy() if len(batch) > 2 else None
        batch_inputs = tf.nest.map_structure(lambda value: value.numpy(), batch[0])
        for row in range(batch[1].shape[0]):
            if weights is not None and not np.any(weights[row] > 0):
                continue  # fills up a batch
            inputs.append(tf.nest.map_structure(operator.itemgetter(row), batch_inputs))
            targets.append(batch[1][row].numpy())
    chosen = np.random.default_rng(seed).permutation(len(inputs))[:count]
    return [inputs[index] for index in chosen], [targets[index] for index in chosen]


def _stacked(*values: Array) -> Array:
    """A batch of inputs as models take them."""
    batch = np.stack(values)
    return batch if batch.dtype == np.int64 else batch.astype(np.float32)


def _pixels(image: Array) -> Array:
    """An image of any range for people: [height, width, 3] uint8."""
    if image.dtype == np.uint8:
        return image
    low, high = float(image.min()), float(image.max())
    if low >= 0 and high > 1:  # not normalized
        return np.clip(np.rint(image), 0, 255).astype(np.uint8)
    return np.rint((image - low) * (255 / max(high - low, 1e-6))).astype(np.uint8)
