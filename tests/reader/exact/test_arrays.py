"""Batches in NumPy: the order of an epoch, its parts among workers, and the same as the data set's.

The expected order is said in lists and slices, see conftest.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reader
from reader.graph.pipeline import build_dataset
from reader.order import numpy_order
from reader.order.geometry import make_geometry
from shard_format import UsageError, load_manifest
from tests.fixtures.proofs import examples

# Batch sizes and streams that any of these workers divides.
WORKERS = st.sampled_from([1, 2, 4])
orders = st.fixed_dictionaries(
    {
        "shuffle": st.sampled_from(["window", "full", "off"]),
        "seed": st.integers(0, 1 << 40),
        "batch_size": st.sampled_from([4, 8, 20, 64, 128]),
        "remainder": st.sampled_from(["drop", "wrap", "pad"]),
        "threads": st.sampled_from([1, 3]),
    }
)


def labels_and_weights(batch: Any) -> list[tuple[int, float]]:
    labels = batch[1].tolist()
    weights = batch[2].tolist() if len(batch) > 2 else [1.0] * len(labels)
    return list(zip(labels, weights, strict=True))


@pytest.mark.usefixtures("small_windows")
@given(orders, WORKERS, st.data())
@settings(max_examples=examples(80), deadline=None)
def test_workers_share_the_batches_of_an_epoch(
    tiny: Path, epoch_batches: Callable[..., Any], order: dict[str, Any], count: int, data: Any
) -> None:
    """Whatever their number was before, and from any step on."""
    geometry = make_geometry(load_manifest(tiny).splits["train"], 4)
    if order["remainder"] == "drop" and order["batch_size"] > geometry.records:
        order["batch_size"] = 20
    expected = [
        batch
        for epoch in range(2)
        for batch in epoch_batches(
            numpy_order.epoch_numbers(geometry, order["seed"], epoch, order["shuffle"]),
            order["batch_size"],
            order["remainder"],
        )
    ]
    if order["remainder"] != "pad":
        expected = [[(number, 1.0) for number, _ in batch] for batch in expected]
    first = data.draw(st.integers(0, len(expected)))
    for worker in range(count):
        stream = reader.load(tiny, image_size=4, epochs=2, worker=(worker, count), **order)
        stream.load_state_dict(stream.state(first))
        batches = list(map(labels_and_weights, stream))
        assert batches == [batch[worker::count] for batch in expected[first:]]
        assert len(stream) == len(batches)


@pytest.mark.usefixtures("small_windows")
@given(orders, WORKERS, st.sampled_from([None, "balanced"]), st.sampled_from(["none", "strong"]))
@settings(max_examples=examples(12), deadline=None)
def test_arrays_are_those_of_the_graph(
    tiny: Path, order: dict[str, Any], count: int, sample: str | None, augment: str
) -> None:
    if order["remainder"] == "drop" and order["batch_size"] > 110:
        order["batch_size"] = 20
    if order["shuffle"] == "off":
        sample = None
    stream = reader.load(
        tiny,
        image_size=6,
        dtype="float32",
        epochs=2,
        worker=(count - 1, count),
        sample=sample,
        augment=augment,
        **order,
    )
    graph = build_dataset(stream.pipeline, 0, 0, len(stream))
    for batch, tensors in zip(stream, graph, strict=True):
        assert labels_and_weights(batch) == labels_and_weights([one.numpy() for one in tensors])
        np.testing.assert_allclose(batch[0], tensors[0].numpy(), atol=0.01)


def test_a_state_at_any_batch_goes_on_there(tiny: Path) -> None:
    """Also while batches are read ahead, and from a view of the stream."""

    def load() -> reader.Stream:
        return reader.load(tiny, batch_size=20, image_size=8, augment="strong", epochs=2, seed=5)

    whole = list(load())
    assert len(whole) == 10
    for taken in range(len(whole) + 1):
        stream = load()
        batches = iter(stream if taken % 2 else stream.numpy())
        assert [next(batches)[1].tolist() for _ in range(taken)] == [
            labels.tolist() for _, labels in whole[:taken]
        ]
        state = json.dumps(stream.state_dict())
        assert len(state) < 1000
        resumed = load()
        resumed.load_state_dict(json.loads(state))
        assert resumed.state_dict() == json.loads(state) and len(resumed) == 10 - taken
        for batch, expected in itertools.zip_longest(resumed, whole[taken:]):
            assert all(map(np.array_equal, batch, expected))
        first = [labels.numpy().tolist() for _, labels in resumed.dataset]
        assert first == [labels.tolist() for _, labels in whole[taken:]]


def test_each_iteration_begins_at_the_start(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=20, image_size=8, epochs=1)
    stream.load_state_dict(stream.state(2))
    once, again = ([labels.tolist() for _, labels in stream] for _ in range(2))
    assert once == again and len(once) == 4
    assert stream.state_dict()["epoch"] == 1
    next(iter(stream))
    assert stream.state_dict()["step"] == 3


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 1}, "seed is 0 in it and 1 in the stream"),
        ({"batch_size": 10}, "batch_size is 20 in it and 10 in the stream"),
        ({"augment": "standard"}, "batches with augment='none', not 'standard'"),
    ],
)
def test_a_state_of_another_stream_is_refused(
    tiny: Path, other: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {"batch_size": 20, "image_size": 8}
    state = reader.load(tiny, **options).state_dict()
    stream = reader.load(tiny, **{**options, **other})
    with pytest.raises(UsageError, match=message):
        stream.load_state_dict(state)
    assert stream.first_step == 0


def test_what_nobody_counts_has_no_state(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=20, image_size=8)
    next(iter(stream.dataset))
    with pytest.raises(UsageError, match=r"Nobody counts the batches .* Stream\.dataset"):
        stream.state_dict()
    next(iter(stream))
    assert stream.state_dict()["step"] == 1


def test_an_iteration_that_is_given_up_leaves_no_thread(tiny: Path) -> None:
    import threading

    before = set(threading.enumerate())  # an iterator of another test may live still

    def own() -> list[threading.Thread]:
        threads = set(threading.enumerate()) - before
        return [one for one in threads if one.name.startswith("shardmill-")]

    stream = reader.load(tiny, batch_size=10, image_size=8)
    batches = iter(stream)
    next(batches)
    assert own()
    batches.close()  # type: ignore[attr-defined]
    for thread in own():
        thread.join(timeout=60)
    assert not own()


def test_memory_for_prefetched_batches_is_bounded(tiny: Path) -> None:
    from reader.loader import BatchLoader

    started: list[int] = []
    original = BatchLoader.start

    def counted(self: Any, *values: Any) -> Any:
        started.append(1)
        return original(self, *values)

    with mock.patch.object(BatchLoader, "start", counted):
        for budget, ahead in ((1, 1), (None, 2)):
            started.clear()
            stream = reader.load(tiny, batch_size=20, image_size=8, threads=1, ram_budget=budget)
            next(iter(stream))
            assert len(started) == ahead + 1
