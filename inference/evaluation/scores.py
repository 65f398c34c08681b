"""The sums over the batches of an evaluation, and what follows from them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainer.baseline import Baseline
from trainer.monitoring.confusion import MAX_CLASSES


@dataclasses.dataclass(frozen=True)
class ClassScore:
    """How well one class is predicted.

    Attributes:
        name: Name of the class.
        support: Records of this class.
        precision: Share of the records predicted to be of this class that are; None where none is
            predicted to be.
        recall: Share of the records of this class that are predicted to be; None without records.
    """

    name: str
    support: int
    precision: float | None
    recall: float | None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        model: File or folder of the model.
        runtime: "keras", "saved-model", "tflite" or "onnx".
        data: The set or the folder.
        split: Name of the split; None of a folder.
        records: Records that were measured; of a language model sequences.
        loss: Mean cross-entropy over the records; of a language model over the tokens.
        accuracy: Share of the records predicted right, in [0, 1]; of multi-label records those with
            every label right; of a language model the share of the tokens.
        baseline: What always answering the most frequent class gives; None where records have any
            number of labels, and for a language model.
        f1: F1 score of all labels together, in [0, 1]; None unless records are multi-label.
        perplexity: e to the power of the loss of a language model; else None.
        classes: Scores of the classes, in the order of the model's outputs.
        matrix: Counts [true, predicted] by class; None for more than MAX_CLASSES classes, for
            multi-label records and for a language model.
        failed: (file, reason) of files that could not be read, which are not counted.
    """

    model: str
    runtime: str
    data: str
    split: str | None
    records: int
    loss: float
    accuracy: float
    baseline: Baseline | None
    f1: float | None
    perplexity: float | None
    classes: tuple[ClassScore, ...]
    matrix: tuple[tuple[int, ...], ...] | None
    failed: tuple[tuple[str, str], ...] = ()


class Scores:
    """Sums over batches.

    Args:
        class_names: Name of every output; empty for a language model.
        multi_label: Whether a record has any number of labels.
    """

    def __init__(self, class_names: Sequence[str], multi_label: bool) -> None:
        count = len(class_names)
        self._class_names = class_names
        self._multi_label = multi_label
        self._records = self._examples = self._correct = 0
        self._loss = 0.0
        self._right, self._predicted, self._support = np.zeros((3, count), np.int64)
        has_matrix = not multi_label and 0 < count <= MAX_CLASSES
        self._matrix = np.zeros((count, count), np.int64) if has_matrix else None

    def add(self, losses: Any, predicted: Any, targets: Any, weights: Any = None) -> None:
        """Counts a batch.

        Args:
            losses: Loss of every target, [batch, ...], times its weight.
            predicted: Classes [batch, ...], or [batch, classes] of 0 and 1.
            targets: The same as they are.
            weights: Weight of every target, 0 for what does not count; None for 1 each.
        """
        self._records += len(targets)
        self._loss += float(np.sum(losses, dtype=np.float64))
        right = np.equal(predicted, targets)
        if self._multi_label:
            self._correct += int(right.all(axis=-1).sum())
            self._examples += len(targets)
            self._right += np.sum((predicted > 0) & (targets > 0), axis=0)
            self._predicted += np.sum(predicted > 0, axis=0)
            self._support += np.sum(targets > 0, axis=0)
            return
        counted = np.ones(targets.shape, bool) if weights is None else weights > 0
        self._correct += int(np.sum(right & counted))
        self._examples += int(np.sum(counted))
        if not self._class_names:
            return
        count = len(self._class_names)
        self._right += np.bincount(targets[right], minlength=count)
        self._predicted += np.bincount(predicted, minlength=count)
        self._support += np.bincount(targets, minlength=count)
        if self._matrix is not None:
            np.add.at(self._matrix, (targets, predicted), 1)

    def most_frequent(self, chosen_on: str) -> Baseline | None:
        """The baseline of the class that most of the counted records have."""
        if self._multi_label or not self._support.sum():
            return None
        best = int(self._support.argmax())
        share = float(self._support[best] / self._support.sum())
        return Baseline(self._class_names[best], chosen_on, share)

    @property
    def records(self) -> int:
        """Records that were counted."""
        return self._records

    @property
    def accuracy(self) -> float:
        """Share of the counted examples that are predicted right."""
        return self._correct / max(1, self._examples)

    def result(
        self,
        *,
        model: str,
        runtime: str,
        data: str,
        split: str | None,
        baseline: Baseline | None,
        failed: Sequence[tuple[str, str]] = (),
    ) -> Evaluation:
        """The evaluation, of at least one record."""
        loss = self._loss / max(1, self._examples)
        right, predicted, support = (
            values.tolist() for values in (self._right, self._predicted, self._support)
        )
        labels = sum(predicted) + sum(support)
        return Evaluation(
            model=model,
            runtime=runtime,
            data=data,
            split=split,
            records=self._records,
            loss=loss,
            accuracy=self.accuracy,
            baseline=baseline,
            f1=2 * sum(right) / max(1, labels) if self._multi_label else None,
            perplexity=None if self._class_names else math.exp(min(loss, 700.0)),
            classes=tuple(
                ClassScore(
                    name, support[n], _ratio(right[n], predicted[n]), _ratio(right[n], support[n])
                )
                for n, name in enumerate(self._class_names)
            ),
            matrix=None if self._matrix is None else tuple(map(tuple, self._matrix.tolist())),
            failed=tuple(failed),
        )


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
