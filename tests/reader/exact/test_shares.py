"""The arithmetic of workers, states and remainders, without files."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reader.options import ReadOptions
from reader.order import numpy_order
from reader.order.geometry import Geometry, WorkerShard, emitted_records
from reader.windows import Task, Windows
from tests.fixtures.proofs import examples, proofs

remainders = st.sampled_from(["drop", "keep", "pad", "wrap"])


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Geometry, int, int]:
    """A geometry, a number of workers that divides its streams, and a batch size for them."""
    streams = draw(st.sampled_from([1, 3, 4, 6, 8]))
    workers = draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 8) if streams % n == 0]))
    chunk = draw(st.integers(1, 4))
    records = draw(st.integers(1, 120))
    geometry = Geometry(records, streams, chunk * draw(st.integers(1, 3)), chunk)
    return geometry, workers, workers * draw(st.integers(1, 60))


def share_of(
    geometry: Geometry, worker: int, workers: int, batch: int, remainder: str
) -> WorkerShard:
    emitted = emitted_records(geometry.records, batch, remainder)
    return WorkerShard(geometry, worker, workers, emitted)


def windows_of(share: WorkerShard, batch: int, remainder: str) -> Windows:
    options = ReadOptions(
        split="train",
        batch_size=batch,
        image_size=None,
        augment="none",
        shuffle="window",
        seed=0,
        epochs=1,
        cache="off",
        cache_dir=None,
        dtype="uint8",
        normalize="none",
        remainder=remainder,
        streams=share.geometry.streams,
        worker=(share.worker, share.workers),
    )
    return Windows(share, None, (), options)  # type: ignore[arg-type]


def positions_of(task: Task, share: WorkerShard) -> list[int]:
    """Of the records of a task, in its epoch."""
    base = int(task.window) * share.geometry.window_records
    first = base + int(task.residue) + int(task.skip) * share.workers
    return [first + number * share.workers for number in range(int(task.take))]


@given(layouts(), remainders)
def test_what_fills_up_an_epoch(
    epoch_batches: Callable[..., Any], layout: tuple[Geometry, int, int], remainder: str
) -> None:
    """Every worker has the same number of steps, over as many laps as a large batch needs."""
    geometry, workers, batch = layout
    batches = epoch_batches(range(geometry.records), batch, remainder)
    for worker in range(workers):
        share = share_of(geometry, worker, workers, batch, remainder)
        filling = [
            position
            for window, residue, take in share.filling()
            for position in positions_of(Task(0, window, residue, 0, take, 0), share)
        ]
        own = [row for rows in batches for row in rows[worker::workers]]
        assert filling == [position for position, weight in own if not weight]
        assert share.own(share.emitted) == len(own)
        for window, _, take in share.filling():
            assert take > 0 and 0 <= window < geometry.num_windows


@settings(max_examples=examples(25))
@given(layouts(), remainders, st.data())
def test_the_tasks_of_the_rest_of_an_epoch(
    epoch_batches: Callable[..., Any],
    layout: tuple[Geometry, int, int],
    remainder: str,
    data: st.DataObject,
) -> None:
    geometry, workers, batch = layout
    worker = data.draw(st.integers(0, workers - 1))
    batches = epoch_batches(range(geometry.records), batch, remainder)
    step = data.draw(st.integers(0, max(0, len(batches) - 1)))
    share = share_of(geometry, worker, workers, batch, remainder)
    if remainder == "keep" and workers > 1:
        return  # the options refuse it
    tasks = windows_of(share, batch, remainder).of_epoch(5, step * batch)
    pairs = []
    for task in tasks:
        assert task.take > 0 and task.epoch == 5
        pairs += [(position, float(task.real)) for position in positions_of(task, share)]
    assert pairs == [row for rows in batches[step:] for row in rows[worker::workers]]


@settings(max_examples=examples(12))
@given(layouts(), st.integers(0, 3), st.data())
def test_endless_tasks_run_over_the_ends_of_epochs(
    layout: tuple[Geometry, int, int], epoch: int, data: st.DataObject
) -> None:
    """As one row of positions, of which each worker has every n-th wherever epochs end."""
    geometry, workers, batch = layout
    worker = data.draw(st.integers(0, workers - 1))
    start = data.draw(st.integers(0, geometry.records - 1))
    share = share_of(geometry, worker, workers, batch, "drop")
    tasks = windows_of(share, batch, "drop").endless(epoch, start)
    last = epoch + 3
    places: list[tuple[int, int]] = []
    for task in itertools.takewhile(lambda task: task.epoch < last, tasks):
        assert task.take > 0
        places += [(int(task.epoch), position) for position in positions_of(task, share)]
    row = [divmod(n, geometry.records) for n in range(last * geometry.records)]
    begin = epoch * geometry.records + start
    assert places == [place for n, place in enumerate(row) if n >= begin and n % workers == worker]


@settings(max_examples=examples(25))
@given(layouts(), remainders, st.integers(0, 2**63 - 1), st.sampled_from(["window", "full"]))
def test_the_batches_of_all_workers_are_those_of_one(
    epoch_batches: Callable[..., Any],
    layout: tuple[Geometry, int, int],
    remainder: str,
    seed: int,
    shuffle: str,
) -> None:
    """Records by the windows of each worker, put together, are the batches of the whole order."""
    geometry, workers, batch = layout
    numbers = numpy_order.epoch_numbers(geometry, seed, 1, shuffle)
    expected = epoch_batches(numbers, batch, remainder)
    filled: list[list[int]] = [[] for _ in expected]
    for worker in range(workers):
        share = share_of(geometry, worker, workers, batch, remainder)
        own: list[int] = []
        whole = [(window, worker, None) for window in range(geometry.num_windows)]
        for window, residue, take in [*whole, *share.filling()]:
            read, wanted = numpy_order.window_order(
                geometry, window, (residue, workers), seed, 1, shuffle
            )
            own += read[wanted[:take]].tolist()
        assert len(own) >= share.own(share.emitted)
        for number, record in enumerate(own[: share.own(share.emitted)]):
            filled[(worker + number * workers) // batch].append(record)
    assert [Counter(rows) for rows in filled] == [
        Counter(number for number, _ in rows) for rows in expected
    ]


@pytest.mark.parametrize("shuffle", ["window", *proofs("full")])
def test_every_record_is_left_out_as_often(shuffle: str) -> None:
    """400 epochs, of which each leaves out the rest of batches of 16."""
    geometry = Geometry(23, 2, 4, 2)
    emitted = emitted_records(23, 16, "drop")
    left_out = np.zeros(23)
    for epoch in range(400):
        left_out[numpy_order.epoch_numbers(geometry, 3, epoch, shuffle)[emitted:]] += 1
    share = 7 / 23
    assert np.abs(left_out - 400 * share).max() < 4 * np.sqrt(400 * share * (1 - share))
