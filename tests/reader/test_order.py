from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from reader.graph import order as graph_order
from reader.graph.pipeline import without_autograph
from reader.order import numpy_order
from reader.order.buckets import bucket_order
from reader.order.geometry import STREAMS, Geometry, make_geometry
from shard_format import ShardInfo, SplitInfo, mix
from tests.fixtures.proofs import examples, proofs

seeds = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**40)
shuffles = st.sampled_from(["window", "full", "off"])
worker_counts = st.sampled_from([1, 2, 4])


def uniforms(draws: npt.ArrayLike, count: int, seed: int, epoch: int) -> np.ndarray:
    """`graph_order.uniforms` in NumPy."""
    keys = numpy_order.epoch_key(numpy_order.AUGMENT_STREAM, seed, epoch)
    keys = mix(keys ^ np.asarray(draws, np.uint64))
    bits = mix(keys[:, None] ^ np.arange(count, dtype=np.uint64)) >> np.uint64(40)
    return bits.astype(np.float32) * np.float32(2**-24)  # 24 bits: exact in a float32


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    """Of 4, 8 or 12 streams, with blocks of up to 3 chunks."""
    chunk = draw(st.integers(1, 5))
    streams = draw(st.sampled_from([4, 8, 12]))
    return Geometry(draw(st.integers(1, 300)), streams, chunk * draw(st.integers(1, 3)), chunk)


def split_of(records: int, record_bytes: int) -> SplitInfo:
    return SplitInfo((ShardInfo("s", records, records * record_bytes, ""),), {})


def joined(parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    return np.concatenate([numbers[wanted] for numbers, wanted in parts])


@given(geometries(), seeds, epochs, shuffles)
def test_an_epoch_has_each_record_exactly_once(
    geometry: Geometry, seed: int, epoch: int, shuffle: str
) -> None:
    numbers = numpy_order.epoch_numbers(geometry, seed, epoch, shuffle)
    assert sorted(numbers) == list(range(geometry.records))


@settings(max_examples=examples(30))
@given(geometries(), seeds, epochs, shuffles, worker_counts)
def test_workers_read_every_nth_position(
    geometry: Geometry, seed: int, epoch: int, shuffle: str, workers: int
) -> None:
    whole = numpy_order.epoch_numbers(geometry, seed, epoch, shuffle)
    for worker in range(workers):
        own = [
            numpy_order.window_order(geometry, window, (worker, workers), seed, epoch, shuffle)
            for window in range(geometry.num_windows)
        ]
        assert (joined(own) == whole[worker::workers]).all()


@pytest.mark.proof
@given(geometries(), seeds, epochs, worker_counts, st.integers(1, 5), st.integers(1, 6))
def test_workers_share_the_batches_of_similar_length(
    geometry: Geometry, seed: int, epoch: int, workers: int, times: int, buckets: int
) -> None:
    lengths = mix(np.arange(geometry.records, dtype=np.uint64)).astype(np.int64) % 17
    windows, batch = range(geometry.num_windows), workers * times

    def read(share: tuple[int, int]) -> np.ndarray:
        return joined(
            [
                bucket_order(geometry, lengths, window, share, batch, buckets, seed, epoch)
                for window in windows
            ]
        )

    whole = read((0, 1))
    assert sorted(whole) == list(range(geometry.records))
    for worker in range(workers):
        assert (read((worker, workers)) == whole[worker::workers]).all()


def test_buckets_bring_similar_lengths_together() -> None:
    geometry = Geometry(4096, 8, 512, 64)
    lengths = mix(np.arange(4096, dtype=np.uint64)).astype(np.int64) % 1000

    def padding(buckets: int) -> float:
        numbers, wanted = bucket_order(geometry, lengths, 0, (0, 1), 32, buckets, 1, 0)
        batches = lengths[numbers[wanted]].reshape(-1, 32)
        return float(1 - batches.sum() / (32 * batches.max(axis=1)).sum())

    assert padding(1) > 0.4
    assert padding(16) < 0.12
    assert padding(64) < padding(16)


@settings(max_examples=examples(30))
@given(seeds, epochs)
def test_order_depends_on_seed_and_epoch_and_nothing_else(seed: int, epoch: int) -> None:
    geometry = Geometry(64, 4, 8, 4)
    for shuffle in ("window", "full"):
        numbers = numpy_order.epoch_numbers(geometry, seed, epoch, shuffle)
        assert (numbers == numpy_order.epoch_numbers(geometry, seed, epoch, shuffle)).all()
        assert (numbers != numpy_order.epoch_numbers(geometry, seed, epoch + 1, shuffle)).any()
        assert (
            numbers != numpy_order.epoch_numbers(geometry, (seed + 1) % 2**63, epoch, shuffle)
        ).any()


def test_the_order_is_part_of_the_format() -> None:
    """Written down: whoever changes these numbers breaks the resume of runs under way."""
    geometry = Geometry(10, 2, 4, 2)
    assert numpy_order.epoch_numbers(geometry, 1, 2, "window").tolist() == [
        7,
        5,
        3,
        0,
        6,
        4,
        2,
        1,
        8,
        9,
    ]
    assert numpy_order.epoch_numbers(geometry, 1, 2, "full").tolist() == [
        7,
        1,
        6,
        2,
        5,
        9,
        3,
        8,
        4,
        0,
    ]
    random = uniforms([3], 2, seed=1, epoch=2)
    assert random.tolist() == [[0.3833548426628113, 0.7971541881561279]]


def test_without_shuffle_the_order_is_that_on_disk() -> None:
    assert (numpy_order.epoch_numbers(Geometry(12, 4, 2, 2), 5, 1, "off") == np.arange(12)).all()


@pytest.mark.parametrize("shuffle", ["window", pytest.param("full", marks=pytest.mark.proof)])
def test_a_split_of_one_window_is_permuted_evenly(shuffle: str) -> None:
    """Every record comes at every position equally often: nothing sticks to its chunk."""
    geometry = Geometry(9, 2, 8, 4)  # two chunks, and a shorter one
    orders = np.array([numpy_order.epoch_numbers(geometry, 0, e, shuffle) for e in range(4000)])
    for position in range(9):
        share = np.bincount(orders[:, position], minlength=9) / len(orders)
        assert np.abs(share - 1 / 9).max() < 0.028  # 5.6 standard deviations


@pytest.mark.parametrize("count", [2, 3, 4, 5, *proofs(6)])
def test_every_permutation_of_a_small_domain_is_as_likely(count: int) -> None:
    """Chi-square over all count! permutations of 200 keys for each, within 5 deviations."""
    kinds = math.factorial(count)
    keys = mix(np.arange(200 * kinds, dtype=np.uint64))
    columns = [
        numpy_order.permute(np.full(len(keys), value), count, keys) for value in range(count)
    ]
    counts = Counter(map(tuple, np.stack(columns, axis=1).tolist()))
    assert set(counts) <= set(itertools.permutations(range(count)))
    chi_square = sum((counts[p] - 200) ** 2 / 200 for p in itertools.permutations(range(count)))
    assert chi_square < kinds - 1 + 5 * math.sqrt(2 * (kinds - 1))


def in_graph(function: Callable[..., Any], *numbers: int) -> list[np.ndarray]:
    """What a function of scalar int64 tensors returns in a data set, where constants differ."""
    scalars = tuple(tf.constant(number, tf.int64) for number in numbers)
    dataset = tf.data.Dataset.from_tensors(scalars).map(without_autograph(function))
    return [part.numpy() for part in next(iter(dataset))]


@settings(deadline=None, max_examples=examples(15))
@given(geometries(), seeds, epochs, worker_counts, st.integers(1, 4), st.data())
def test_tensorflow_computes_the_same_order(
    geometry: Geometry, seed: int, epoch: int, workers: int, times: int, data: st.DataObject
) -> None:
    window = data.draw(st.integers(0, geometry.num_windows - 1))
    share = data.draw(st.integers(0, workers - 1)), workers
    lengths = np.arange(geometry.records) * 7 % 5
    numbers = np.arange(geometry.records)
    buckets = (workers * times, 3, seed)

    def computed(window: Any, residue: Any, epoch: Any) -> Any:
        place = (window, residue, workers)
        orders = [
            graph_order.window_order(geometry, *place, seed, epoch, shuffle)
            for shuffle in ("window", "full", "off")
        ]
        orders.append(
            graph_order.bucket_order(
                geometry, lambda n: tf.gather(tf.constant(lengths), n), *place, *buckets, epoch
            )
        )
        random = graph_order.uniforms(tf.constant(numbers), 3, seed, epoch)
        return (*itertools.chain(*orders), random)

    expected = [
        numpy_order.window_order(geometry, window, share, seed, epoch, shuffle)
        for shuffle in ("window", "full", "off")
    ]
    expected.append(bucket_order(geometry, lengths, window, share, *buckets, epoch))
    all_expected = (*itertools.chain(*expected), uniforms(numbers, 3, seed, epoch))
    results = in_graph(computed, window, share[0], epoch)
    for one, other in zip(results, all_expected, strict=True):
        assert (one == other).all()


def test_random_numbers_are_uniform_and_independent() -> None:
    numbers = uniforms(np.arange(20_000), 4, seed=0, epoch=0)
    assert numbers.dtype == np.float32 and numbers.min() >= 0 and numbers.max() < 1
    histogram = np.histogram(numbers, bins=10, range=(0, 1))[0] / numbers.size
    assert np.abs(histogram - 0.1).max() < 0.006
    correlation = np.corrcoef(np.hstack([numbers, np.roll(numbers, 1, axis=0)]).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.04


def test_usual_records_make_windows_of_64_chunks_of_64() -> None:
    geometry = make_geometry(split_of(100_000, 27_000), STREAMS)
    assert geometry == Geometry(100_000, 64, 64, 64)
    assert (geometry.window_records, geometry.num_windows, geometry.num_chunks) == (4096, 25, 1562)


@given(st.integers(1, 10**6), st.integers(1, 300 << 20), st.integers(1, 512))
def test_a_window_of_large_records_is_smaller(records: int, size: int, streams: int) -> None:
    geometry = make_geometry(split_of(records, size), streams)
    assert streams % geometry.streams == 0
    assert geometry.block_records % geometry.chunk_records == 0
    assert geometry.chunk_records * size <= max(size, 4 << 20)
    fits = geometry.window_records * size <= 256 << 20
    assert fits or (geometry.block_records == 1 and geometry.streams % 2 == 1)


def test_streams_are_what_was_asked_for_where_records_allow() -> None:
    with mock.patch("reader.order.geometry.WINDOW_BYTES", 1000):
        assert make_geometry(split_of(10, 100), 8).streams == 8
        assert make_geometry(split_of(10, 100), 16).streams == 8
        assert make_geometry(split_of(10, 100), 25).streams == 25
