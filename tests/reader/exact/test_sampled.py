"""Records drawn by class: shares, how often each record comes, resume, workers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from reader.graph.sampling import GraphSampler
from reader.order.class_sampling import ClassSampler
from tests.fixtures.proofs import examples

samplers = st.tuples(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 40)), min_size=1, max_size=6).filter(
        lambda classes: any(slots for _, slots in classes)
    ),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32),
)


def sampler_of(classes: list[tuple[int, int]], seed: int) -> tuple[ClassSampler, np.ndarray]:
    """A sampler of classes of (records, slots), and the class of every record."""
    labels = np.repeat(np.arange(len(classes)), [size for size, _ in classes])
    labels = np.random.default_rng(seed).permutation(labels)
    return ClassSampler(labels, np.array([slots for _, slots in classes]), seed), labels


@given(samplers, st.integers(1, 300))
def test_shares_are_exact_and_records_come_equally_often(
    drawn: tuple[list[tuple[int, int]], int, int], count: int
) -> None:
    """In every block the slots of a class; of a class every record as often but for one."""
    classes, seed, epoch = drawn
    sampler, labels = sampler_of(classes, seed)
    numbers = sampler.numbers(np.arange(count), epoch)
    block = sum(slots for _, slots in classes)
    for start in range(0, count - block + 1, block):
        counts = np.bincount(labels[numbers[start : start + block]], minlength=len(classes))
        assert counts.tolist() == [slots for _, slots in classes]
    times = np.bincount(numbers, minlength=len(labels))
    for number in range(len(classes)):
        own = times[labels == number]
        assert own.max() - own.min() <= 1
    # Which positions are asked for together changes nothing: a worker has some of them.
    for part in (slice(1, None, 3), slice(count // 2, None), slice(0, 0)):
        assert (sampler.numbers(np.arange(count)[part], epoch) == numbers[part]).all()


@settings(max_examples=examples(10))
@given(samplers, st.integers(0, 200), st.integers(1, 60), st.integers(1, 4))
def test_tensorflow_draws_the_same(
    drawn: tuple[list[tuple[int, int]], int, int], start: int, count: int, step: int
) -> None:
    classes, seed, epoch = drawn
    sampler, _ = sampler_of(classes, seed)
    positions = np.arange(start, start + count * step, step)
    drawn_there = GraphSampler(sampler).numbers(
        tf.constant(positions), tf.constant(epoch, tf.int64)
    )
    assert (drawn_there.numpy() == sampler.numbers(positions, epoch)).all()


@pytest.fixture
def documents(token_set: Callable[..., Path]) -> Path:
    """96 of three classes: 64, 24 and 8. The first token tells which."""
    classes = [0] * 64 + [1] * 24 + [2] * 8
    train = [([number // 2, number % 2] + [7] * 9, label) for number, label in enumerate(classes)]
    return token_set(classes=3, train=train)


@pytest.mark.parametrize(
    ("sample", "shuffle"),
    [
        ("balanced", "window"),
        pytest.param({"class0": 1.0, "class2": 3}, "full", marks=pytest.mark.proof),
        pytest.param({"class0": 1.0, "class2": 3}, "window", marks=pytest.mark.proof),
        pytest.param("balanced", "full", marks=pytest.mark.proof),
    ],
)
def test_sampled_streams_resume_on_any_workers(
    documents: Path, taken: Callable[..., list[list[Any]]], sample: Any, shuffle: str
) -> None:
    options = {"batch_size": 12, "sample": sample, "seed": 5, "augment": "strong", "pad": "max"}
    options |= {"shuffle": shuffle}
    with (
        mock.patch("reader.order.geometry.WINDOW_RECORDS", 32),
        mock.patch("reader.order.class_sampling.SLOTS", 8),
    ):
        stream = reader.load(documents, **options, streams=4)
        count = 2 * stream.steps_per_epoch + 3
        whole = taken(stream.dataset, count)
        for stop, worker in ((0, (1, 2)), (5, (3, 4)), (stream.steps_per_epoch, (0, 1))):
            state = json.loads(json.dumps(stream.state(stop)))
            resumed = reader.load(documents, **options, streams=4, worker=worker, state=state)
            rest = taken(resumed.dataset, count - stop)
            for one, other in zip(rest, whole[stop:], strict=True):
                for a, b in zip(one, other, strict=True):
                    assert np.array_equal(a, b[worker[0] :: worker[1]])
    labels = np.concatenate([batch[1] for batch in whole[: stream.steps_per_epoch]])
    expected = {0: 32, 1: 32, 2: 32} if sample == "balanced" else {0: 24, 2: 72}
    assert Counter(labels.tolist()) == expected


def test_a_record_that_comes_again_is_augmented_anew(
    make_set: Callable[..., Path], taken: Callable[..., list[list[Any]]]
) -> None:
    """One class is 24 times the other; its records differ by what augmentation does alone."""
    directory = make_set({"train": (12,)}, sizes=((60, 90),))
    options = {"image_size": 8, "augment": "strong", "epochs": 1, "seed": 1}
    sample = {"class3": 1.0, "class7": 1.0}
    stream = reader.load(directory, batch_size=12, sample=sample, **options)
    ((images, labels),) = taken(stream.dataset)
    assert Counter(labels.tolist()) == {3: 6, 7: 6}
    assert len({image.tobytes() for image in images}) == 12
