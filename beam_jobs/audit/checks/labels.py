"""Likely label errors and the hardest records, by out-of-sample predictions; forgotten records.

Label errors are found by confident learning (Northcutt, Jiang and Chuang, Confident learning:
estimating uncertainty in dataset labels, JAIR 2021; pruning by noise rate, section 3.2), as
cleanlab does by default.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet, Float64Array
from beam_jobs.audit.checks.base import Check, flagged
from beam_jobs.audit.predictions import Predictions
from beam_jobs.columns import IntArray

_BLOCK_VALUES = 1 << 24  # probabilities in memory at a time: 64 MiB
_SLACK = 1e-6  # a probability that equals the mean up to rounding is as good

Probabilities = npt.NDArray[np.float32]


class JudgedRecords:
    """The records that have a label and predictions.

    Args:
        audited: The set.
        predictions: What a model says of some of its splits.

    Attributes:
        rows: [n] numbers of the records, ascending.
        labels: [n] their classes.
        confidence: [n] the probability of the label.
        best: [n] the class with the greatest probability.
        num_classes: Number of classes.
    """

    def __init__(self, audited: AuditedSet, predictions: Predictions) -> None:
        begins = dict(zip(audited.manifest.splits, audited.begins.tolist(), strict=False))
        given = ((begins[split], values) for split, values in predictions.splits.items())
        self._parts = sorted(given, key=lambda part: part[0])
        label = audited.label(predictions.label)
        self._class_names = label.class_names if label else ()
        self.num_classes = self._parts[0][1].shape[1] if self._parts else 0
        every = [np.arange(begin, begin + len(values)) for begin, values in self._parts]
        self.rows: IntArray = np.concatenate([np.zeros(0, np.int64), *every])
        self.labels = audited.labels(predictions.label)[self.rows]
        self._keep(self.labels >= 0)
        confidence, best = np.zeros(len(self.rows)), np.zeros(len(self.rows), np.int64)
        for own, values in self.blocks():
            confidence[own] = values[np.arange(len(values)), self.labels[own]]
            best[own] = values.argmax(axis=1)
        readable = ~np.isnan(confidence)
        self._keep(readable)
        self.confidence, self.best = confidence[readable], best[readable]

    def _keep(self, which: npt.NDArray[np.bool_]) -> None:
        self.rows, self.labels = self.rows[which], self.labels[which]

    def names(self, own: IntArray) -> list[str]:
        """[k] the most probable class of some of the [n] records."""
        return [self._class_names[one] for one in self.best[own].tolist()]

    def take(self, own: IntArray | slice) -> Probabilities:
        """[k, classes] of some of the [n] records, in their order, which ascends."""
        rows = self.rows[own]
        parts = [np.zeros((0, self.num_classes), np.float32)]
        for begin, values in self._parts:
            first, last = np.searchsorted(rows, [begin, begin + len(values)])
            parts.append(values[rows[first:last] - begin])
        return np.concatenate(parts)

    def blocks(self) -> Iterator[tuple[slice, Probabilities]]:
        """Some neighbours at a time, with their probabilities."""
        step = max(1, _BLOCK_VALUES // max(1, self.num_classes))
        for begin in range(0, len(self.rows), step):
            own = slice(begin, begin + step)
            yield own, self.take(own)


def _label_errors(audited: AuditedSet, threshold: float) -> pa.Table | None:
    if audited.predictions is None:
        return None
    judged = JudgedRecords(audited, audited.predictions)
    errors, margins = label_errors(judged, threshold)
    return flagged(judged.rows[errors], margins, other=judged.names(errors))


def label_errors(judged: JudgedRecords, share: float) -> tuple[IntArray, Float64Array]:
    """([k] places among the judged records, [k] margins) of likely label errors, the worst first.

    The margin is the probability of the best class less that of the label.

    Args:
        judged: The records.
        share: How many of the estimated errors are returned.
    """
    expected = np.floor(share * _confident_counts(judged) + 0.5).astype(np.int64)
    chosen = np.zeros(len(judged.rows), bool)
    for label in np.unique(judged.labels).tolist():
        own = np.flatnonzero(judged.labels == label)
        others = np.flatnonzero(expected[label])
        others = others[others != label]
        if len(own) > 1 and len(others):
            values = judged.take(own)
            for other in others.tolist():
                worst = np.argsort(values[:, label] - values[:, other], kind="stable")
                chosen[own[worst[: expected[label, other]]]] = True
    errors = np.flatnonzero(chosen & (judged.best != judged.labels))
    margins = np.zeros(len(errors))
    if len(errors):
        margins = judged.take(errors).max(axis=1) - judged.confidence[errors]
    order = np.argsort(-margins, kind="stable")
    return errors[order], margins[order]


def _confident_counts(judged: JudgedRecords) -> Float64Array:
    """[label, class] estimated number of records of a label that are of a class: equation 2.

    A record counts for the class of the greatest probability among those that are as probable as
    they are, on average, of records with that label.
    """
    size = judged.num_classes
    sums = np.bincount(judged.labels, judged.confidence, size)
    numbers = np.bincount(judged.labels, minlength=size)
    thresholds = np.where(numbers, sums / np.maximum(numbers, 1), 2) - _SLACK
    counts = np.zeros((size, size))
    for own, values in judged.blocks():
        likely = np.where(values >= thresholds, values, -1)
        best = likely.argmax(axis=1)
        sure = likely.max(axis=1) >= 0
        np.add.at(counts, (judged.labels[own][sure], best[sure]), 1)
    np.fill_diagonal(counts, np.maximum(counts.diagonal(), 1))
    return np.asarray(counts * (numbers / counts.sum(axis=1))[:, None], np.float64)


def _hardest(audited: AuditedSet, threshold: float) -> pa.Table | None:
    if audited.predictions is None:
        return None
    judged = JudgedRecords(audited, audited.predictions)
    order = np.argsort(judged.confidence, kind="stable")
    order = order[: int(np.ceil(threshold * len(order)))]
    return flagged(judged.rows[order], judged.confidence[order], other=judged.names(order))


def _forgotten(audited: AuditedSet, threshold: float) -> pa.Table | None:
    if audited.predictions is None or not audited.predictions.forgotten:
        return None
    events = np.full(audited.records, -1)
    begins = dict(zip(audited.manifest.splits, audited.begins.tolist(), strict=False))
    for split, values in audited.predictions.forgotten.items():
        events[begins[split] : begins[split] + len(values)] = values
    rows = np.flatnonzero(events >= threshold)
    rows = rows[np.argsort(-events[rows], kind="stable")]
    return flagged(rows, events[rows])


LABEL_ERROR = Check(
    "Likely label errors",
    "By confident learning the record is of the other class; the value is the probability of that "
    "less that of the label. Named is a share of {0:g} of the errors that are estimated.",
    1,
    _label_errors,
)
HARDEST = Check(
    "Hardest records",
    "The label has the lowest probability, which is the value; a share of {0:g} of the judged "
    "records.",
    0.01,
    _hardest,
)
FORGOTTEN = Check(
    "Forgotten records",
    "The run that was trained on the record was right after one epoch and wrong after the next "
    "one, at least {0:g} times; the value is how often. A record that it never got right has the "
    "number of epochs.",
    2,
    _forgotten,
)
