"""Streams from files: any worker, any stop, any set gives what the whole order says."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reader
from reader.order import numpy_order
from reader.order.geometry import make_geometry
from shard_format import load_manifest
from tests.fixtures.proofs import examples


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Windows of 24 records and chunks of 3, so that small sets have several of each."""
    with (
        mock.patch("reader.order.geometry.CHUNK_RECORDS", 3),
        mock.patch("reader.order.geometry.WINDOW_RECORDS", 24),
        mock.patch("reader.order.geometry.STREAMS", 4),
        mock.patch("reader.order.geometry.BUCKET_STREAMS", 4),
    ):
        yield


def orders(directory: Path, options: dict[str, Any]) -> Callable[[int], list[int]]:
    """The record numbers of an epoch, by the NumPy twin."""
    split = load_manifest(directory).splits["train"]
    geometry = make_geometry(split, options.get("streams") or 4)
    return lambda epoch: numpy_order.epoch_numbers(
        geometry, options["seed"], epoch, options["shuffle"]
    ).tolist()


def equal(found: list[list[Any]], expected: list[list[Any]]) -> bool:
    """Batches, to the byte."""
    return len(found) == len(expected) and all(
        len(one) == len(other)
        and all(
            a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True)
        )
        for one, other in zip(found, expected, strict=True)
    )


def by_json(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state)
    assert len(text) <= 1000
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@settings(max_examples=examples(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.sampled_from([0, 1, 2, 7, 25]), min_size=1, max_size=6).filter(any),
    streams=st.sampled_from([None, 6, 8]),
    times=st.integers(1, 4),
    shuffle=st.sampled_from(["window", "window", "full", "off"]),
    remainder=st.sampled_from(["drop", "pad", "wrap"]),
    seed=st.integers(0, 2**63 - 1),
    data=st.data(),
)
def test_any_stop_any_worker_any_set(
    make_set: Callable[..., Path],
    epoch_batches: Callable[..., Any],
    taken: Callable[..., list[list[Any]]],
    tmp_path: Path,
    counts: list[int],
    streams: int | None,
    times: int,
    shuffle: str,
    remainder: str,
    seed: int,
    data: st.DataObject,
) -> None:
    shutil.rmtree(tmp_path / "set", ignore_errors=True)
    directory = make_set({"train": tuple(counts)})
    dividing = st.sampled_from([n for n in (1, 2, 3, 4, 6, 8) if (streams or 4) % n == 0])
    first, second = data.draw(dividing), data.draw(dividing)
    batch = int(np.lcm(first, second)) * times
    if sum(counts) < batch and remainder == "drop":
        remainder = "wrap"
    options = {"batch_size": batch, "image_size": 8, "augment": "strong", "seed": seed}
    options |= {"shuffle": shuffle, "remainder": remainder, "streams": streams}
    options |= {"cache": data.draw(st.sampled_from(["off", "memory"]))}
    own = (data.draw(st.integers(0, first - 1)), first)
    other = (data.draw(st.integers(0, second - 1)), second)

    # The whole of it: every batch of two epochs and a half.
    stream = reader.load(directory, **options)
    numbers, steps = orders(directory, options), stream.steps_per_epoch
    expected = [
        batch
        for epoch in range(3)
        for batch in epoch_batches(numbers(epoch), options["batch_size"], remainder)
    ]
    count = steps * 2 + (steps + 1) // 2
    whole = taken(stream.dataset, count)
    for parts, rows in zip(whole, expected[:count], strict=True):
        assert parts[1].tolist() == [number for number, _ in rows]
        if remainder == "pad":
            assert parts[2].tolist() == [weight for _, weight in rows]

    # Stopped, gone on with by one worker of some, stopped again, gone on with by one of others.
    stop = data.draw(st.integers(0, count - 1))
    again = data.draw(st.integers(0, count - stop))
    state = by_json(stream.state(stop))
    resumed = reader.load(directory, **options, worker=own, state=state)
    assert resumed.first_step == stop
    rest = [[part[own[0] :: own[1]] for part in parts] for parts in whole[stop:]]
    assert equal(taken(resumed.dataset, count - stop), rest)

    state = by_json(resumed.state(global_step=stop + again))
    assert state == stream.state(stop + again)
    resumed = reader.load(directory, **options, worker=other, state=state)
    assert resumed.first_step == stop + again
    rest = [[part[other[0] :: other[1]] for part in parts] for parts in whole[stop + again :]]
    assert equal(taken(resumed.dataset, count - stop - again), rest)


@pytest.mark.parametrize("remainder", ["keep", pytest.param("pad", marks=pytest.mark.proof)])
def test_every_stop_of_a_finite_stream(
    tiny: Path, taken: Callable[..., list[list[Any]]], remainder: str
) -> None:
    options = {"batch_size": 40, "image_size": 8, "remainder": remainder, "epochs": 1}
    options |= {"augment": "standard"}
    stream = reader.load(tiny, **options)
    whole = taken(stream.dataset)
    assert len(whole) == stream.steps_per_epoch == 3
    assert [len(batch[1]) for batch in whole] == [40, 40, 30 if remainder == "keep" else 40]
    for stop in (1, 2, 3):
        resumed = reader.load(tiny, **options, state=by_json(stream.state(stop)))
        assert resumed.dataset.cardinality() == 3 - stop
        assert equal(taken(resumed.dataset), whole[stop:])
        assert resumed.state(global_step=3) == stream.state(3)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("tokens", {"buckets": 5, "augment": "strong", "max_tokens": 20}),
        ("tokens", {"buckets": 3, "streams": 6, "remainder": "pad"}),
        ("packed", {"augment": "standard", "remainder": "pad"}),
        ("text", {"augment": "strong", "shuffle": "full", "remainder": "wrap"}),
    ],
)
def test_text_of_every_kind(
    token_set: Callable[..., Path],
    packed_set: Callable[..., Path],
    text_set: Callable[..., Path],
    taken: Callable[..., list[list[Any]]],
    kind: str,
    options: dict[str, Any],
) -> None:
    """Two workers make the batches of one, and each goes on from where one stopped."""
    if kind == "tokens":
        lengths = np.random.default_rng(1).integers(0, 30, 70)
        ids = [([n % 49 + 1] * int(size), n % 2) for n, size in enumerate(lengths)]
        directory = token_set(train=ids)
    elif kind == "packed":
        ids_of = [[[n % 49 + 1] * 5, [3 * n % 49 + 1] * 3] for n in range(70)]
        directory = packed_set(8, train=ids_of)
    else:
        directory = text_set(train=[(f"the {n} words of document {n}", n % 2) for n in range(70)])
    options = {"batch_size": 12, "seed": 4, "cache": "off"} | options
    if kind == "tokens":
        options["pad"] = "max"  # or the parts of a batch would differ in length
    stream = reader.load(directory, **options)
    count = stream.steps_per_epoch * 2 + 2
    whole = taken(stream.dataset, count)
    if kind == "text":
        texts = [text for batch in whole[: stream.steps_per_epoch] for text in batch[0].tolist()]
        assert len(set(texts)) >= 60
    for stop, worker in ((0, (0, 2)), (1, (1, 2)), (stream.steps_per_epoch - 1, (0, 1))):
        resumed = reader.load(
            directory, **options, worker=worker, state=by_json(stream.state(stop))
        )
        rest = [[part[worker[0] :: worker[1]] for part in parts] for parts in whole[stop:]]
        assert equal(taken(resumed.dataset, count - stop), rest)


@pytest.mark.parametrize("remainder", ["pad", pytest.param("wrap", marks=pytest.mark.proof)])
def test_sums_over_all_workers_are_exact(
    tiny: Path, taken: Callable[..., list[list[Any]]], remainder: str
) -> None:
    """A mean over the weights is the mean over the split, in every epoch and for any workers."""
    for batch, workers in ((16, 2), (300, 4)):
        options = {"batch_size": batch, "image_size": 8, "remainder": remainder, "epochs": 2}
        streams = [
            reader.load(tiny, **options, worker=(worker, workers)) for worker in range(workers)
        ]
        steps = streams[0].steps_per_epoch
        by_worker = [taken(stream.dataset) for stream in streams]
        assert [len(batches) for batches in by_worker] == [2 * steps] * workers
        for epoch in range(2):
            own = [batch for batches in by_worker for batch in batches[epoch * steps :][:steps]]
            labels = np.concatenate([batch[1] for batch in own])
            times = Counter(labels.tolist())
            assert len(labels) == steps * batch and set(times) == set(range(110))
            if remainder == "wrap":
                assert max(times.values()) - min(times.values()) <= 1
                continue
            weights = np.concatenate([batch[2] for batch in own])
            assert weights.dtype == np.float32 and weights.sum() == 110
            assert (weights * labels).sum() == sum(range(110))
            assert Counter(labels[weights == 1].tolist()) == Counter(range(110))
