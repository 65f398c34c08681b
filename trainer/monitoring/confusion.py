"""The confusion matrix of a validation, counted on the devices while it runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# Of a matrix with more classes nobody reads the numbers, and its 8 MB on every device are felt.
MAX_CLASSES = 1000

Matrix = npt.NDArray[np.int64]


class Confusion:
    """Counts [true class, predicted class] of validation examples, on each replica for itself.

    Args:
        strategy: Strategy of the loop that calls `add` in its steps.
        num_classes: Number of classes, at most MAX_CLASSES.
    """

    def __init__(self, strategy: Any, num_classes: int) -> None:
        self._num_classes = num_classes
        with strategy.scope():
            self._counts = tf.Variable(
                tf.zeros([num_classes**2], tf.int64),
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
        self._taken: Matrix = np.zeros((num_classes, num_classes), np.int64)

    def add(self, targets: Any, predicted: Any, weights: Any) -> None:
        """Counts examples, in the graph of a replica.

        Args:
            targets: [batch] of a whole-number type.
            predicted: [batch] int64.
            weights: [batch], 0 for what does not count; None for 1 each.
        """
        cells = tf.cast(targets, tf.int64) * self._num_classes + predicted
        if weights is not None:  # past the last cell, which bincount drops
            cells = tf.where(weights > 0, cells, self._num_classes**2)
        counts = tf.math.bincount(
            tf.cast(cells, tf.int32), minlength=self._num_classes**2, maxlength=self._num_classes**2
        )
        self._counts.assign_add(tf.cast(counts, tf.int64))

    def take(self) -> Matrix:
        """[true, predicted] int64 of what was counted since the last call; all workers call it."""
        counted = self._counts.numpy().reshape(self._taken.shape)
        matrix = counted - self._taken
        self._taken = counted
        return matrix


def as_csv(matrix: Matrix, class_names: Sequence[str]) -> str:
    """A matrix as CSV: a row for each true class, a column for each predicted one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["true \\ predicted", *class_names])
    for name, row in zip(class_names, matrix.tolist(), strict=True):
        writer.writerow([name, *row])
    return text.getvalue()
