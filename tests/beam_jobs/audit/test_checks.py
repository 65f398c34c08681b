"""The arithmetic of checks, against plain definitions."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.audit.checks import CHECKS
from beam_jobs.audit.checks.class_names import similar_names
from beam_jobs.audit.checks.columns import _right
from beam_jobs.audit.checks.labels import JudgedRecords, label_errors
from beam_jobs.audit.checks.records import _deviations
from beam_jobs.audit.predictions import Predictions


def _distance(one: str, two: str) -> int:
    """Levenshtein's."""
    row = list(range(len(two) + 1))
    for a, first in enumerate(one, 1):
        before, row[0] = row[0], a
        for b, second in enumerate(two, 1):
            before, row[b] = row[b], min(row[b] + 1, row[b - 1] + 1, before + (first != second))
    return row[-1]


@given(st.lists(st.text("abc", min_size=6, max_size=8), unique=True, max_size=12))
def test_names_that_differ_in_a_letter(names):
    expected = {
        (distance, one, two)
        for two in range(len(names))
        for one in range(two)
        if (distance := _distance(names[one], names[two])) <= 1
    }
    assert set(similar_names(names, 1)) == expected


def test_names_that_are_spelled_in_several_ways():
    names = ["T-Shirt", "t_shirts", "Caf\u00e9", "cafe\u0301", "class 1", "class 2", "cat", "car"]
    assert set(similar_names(names, 1)) == {(0, 0, 1), (0, 2, 3)}
    assert set(similar_names(["outerwear", "outerweer"], 0)) == set()
    assert set(similar_names(["", "_", "-", "s"], 1)) == set()


_CODES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40)


@given(_CODES)
def test_the_label_of_most_others(pairs):
    codes, labels = np.array(pairs).T
    right = 0
    for at, (code, label) in enumerate(pairs):
        others = [b for n, (a, b) in enumerate(pairs) if a == code and n != at]
        counts = [others.count(each) for each in range(3)]
        right += counts[label] > max(counts[:label] + counts[label + 1 :])
    # A class that leads by one loses its lead without one of its own records.
    assert _right(codes, labels) == right / len(pairs)


def _judged(labels, *splits) -> JudgedRecords:
    sizes = [len(one) for one in splits]
    audited = SimpleNamespace(
        manifest=SimpleNamespace(splits=[f"s{n}" for n in range(len(splits))]),
        begins=np.cumsum([0, *sizes]),
        labels=lambda name: np.asarray(labels),
        label=lambda name: None,
    )
    given = {f"s{n}": one for n, one in reversed(list(enumerate(splits)))}
    return JudgedRecords(audited, Predictions("label", given))


def _probabilities(truth, generator, classes):
    values = generator.dirichlet(np.full(classes, 0.3), len(truth)).astype(np.float32)
    values[np.arange(len(truth)), truth] += 6
    return values / values.sum(axis=1, keepdims=True)


def test_flipped_labels_are_found_whatever_the_splits():
    generator = np.random.default_rng(5)
    truth = generator.integers(0, 5, 600)
    values = _probabilities(truth, generator, 5)
    labels = truth.copy()
    flipped = np.sort(generator.permutation(600)[:30])
    labels[flipped] = (truth[flipped] + generator.integers(1, 5, 30)) % 5
    whole = label_errors(_judged(labels, values), 1.0)
    assert set(whole[0]) <= set(flipped) and len(whole[0]) >= 27
    assert (np.diff(whole[1]) <= 0).all() and (whole[1] > 0).all()
    for own, margins in (label_errors(_judged(labels, values[:100], values[100:]), 1.0),):
        assert own.tolist() == whole[0].tolist() and np.allclose(margins, whole[1])
    half, _ = label_errors(_judged(labels, values), 0.5)
    assert set(half) < set(whole[0])


def test_records_without_label_or_prediction_are_not_judged():
    generator = np.random.default_rng(6)
    truth = generator.integers(0, 3, 50)
    values = _probabilities(truth, generator, 3)
    values[7] = np.nan
    labels = truth.copy()
    labels[3] = -1
    judged = _judged(labels, values)
    assert judged.rows.tolist() == [n for n in range(50) if n not in (3, 7)]
    assert np.allclose(judged.confidence, values[judged.rows, labels[judged.rows]])
    assert len(label_errors(judged, 1.0)[0]) == 0
    assert len(label_errors(_judged([0], np.ones((1, 1), np.float32)), 1.0)[0]) == 0


def test_blocks_are_of_any_size(monkeypatch):
    generator = np.random.default_rng(8)
    truth = generator.integers(0, 4, 300)
    values, labels = _probabilities(truth, generator, 4), truth.copy()
    labels[:20] = (labels[:20] + 1) % 4
    whole = label_errors(_judged(labels, values), 1.0)
    monkeypatch.setattr("beam_jobs.audit.checks.labels._BLOCK_VALUES", 28)
    assert label_errors(_judged(labels, values), 1.0)[0].tolist() == whole[0].tolist()


@given(st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=60), st.floats(0.1, 10))
def test_deviations_have_no_unit(values, unit):
    away = _deviations(np.array(values))
    assert np.allclose(_deviations(np.array(values) * unit), away, rtol=1e-6, atol=1e-6)
    assert (away >= 0).all()


def test_the_documents_have_the_checks_and_their_thresholds(repository):
    page = (repository / "docs" / "curation.md").read_text()
    rows = re.findall(
        r"^\| `([a-z-]+)` \| ([\d.]+) \|", page.partition("## Audit")[2], re.MULTILINE
    )
    assert [(name, float(value)) for name, value in rows] == [
        (name, float(check.threshold)) for name, check in CHECKS.items()
    ]
