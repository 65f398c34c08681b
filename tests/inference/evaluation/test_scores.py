"""Sums over batches: precision and recall, the matrix, the baseline."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from inference.evaluation.scores import Scores
from shard_format import Feature
from trainer.baseline import Baseline, majority_baseline

NAMES = ("hat", "shoes", "shirt")
WHERE = {"model": "m", "runtime": "keras", "data": "set", "split": "test", "baseline": None}


def test_every_class_has_precision_recall_and_support():
    scores = Scores(NAMES, multi_label=False)
    scores.add(np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 1]))
    scores.add(np.array([0.5, 0.5]), np.array([1, 1]), np.array([1, 1]))
    result = scores.result(**WHERE)
    assert (result.records, result.loss, result.accuracy) == (4, 1.0, 0.75)
    assert result.matrix == ((1, 0, 0), (1, 2, 0), (0, 0, 0))
    hat, shoes, shirt = map(dataclasses.astuple, result.classes)
    assert hat == ("hat", 1, 0.5, 1.0)
    assert shoes == ("shoes", 3, 1.0, pytest.approx(2 / 3))
    assert shirt == ("shirt", 0, None, None)  # no record is one or was taken for one
    assert scores.most_frequent("photos") == Baseline("shoes", "photos", 0.75)


def test_any_number_of_labels_are_counted_label_by_label():
    scores = Scores(NAMES, multi_label=True)
    targets = np.array([[1, 1, 0], [0, 1, 0]], np.float32)
    scores.add(np.array([0.25, 0.75]), np.array([[1, 0, 0], [0, 1, 1]]), targets)
    result = scores.result(**WHERE)
    assert (result.records, result.loss, result.accuracy) == (2, 0.5, 0.0)
    assert result.f1 == pytest.approx(2 * 2 / (3 + 3)) and result.matrix is None
    assert [one.recall for one in result.classes] == [1.0, 0.5, None]
    assert scores.most_frequent("photos") is None


def test_tokens_without_weight_do_not_count():
    scores = Scores((), multi_label=False)
    losses, weights = np.array([[1.0, 3.0, 0.0]]), np.array([[1.0, 1.0, 0.0]])
    scores.add(losses, np.array([[5, 6, 7]]), np.array([[5, 0, 7]]), weights)
    result = scores.result(**WHERE)
    assert (result.records, result.loss, result.accuracy) == (1, 2.0, 0.5)
    assert result.perplexity == pytest.approx(np.exp(2)) and not result.classes


def test_the_baseline_is_chosen_on_the_training_split_and_measured_on_another(write_records):
    from shard_format import Schema, load_manifest

    label = Feature("label", "class_label", (), "", NAMES[:2], late=True)
    schema = Schema("text", (Feature("text", "text"), label))
    place = write_records(schema, {"train": [], "test": []})
    manifest = load_manifest(place)

    def with_counts(**counts):
        splits = {
            name: dataclasses.replace(split, statistics={"class_counts": counts.get(name)})
            for name, split in manifest.splits.items()
        }
        return dataclasses.replace(manifest, splits=splits)

    measured = with_counts(train={"hat": 9, "shoes": 3}, test={"hat": 1, "shoes": 3})
    assert majority_baseline(measured, label, "train", "test") == Baseline("hat", "train", 0.25)
    # Without a training split, the split itself says which class is the most frequent one.
    assert majority_baseline(measured, label, "no", "test") == Baseline("shoes", "test", 0.75)
    assert majority_baseline(with_counts(), label, "train", "test") is None
    assert majority_baseline(measured, None, "train", "test") is None
