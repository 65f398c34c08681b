from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from reader import order, order_graph
from reader.chunks import Chunks, cut_chunks
from shard_format import DamageError, ShardInfo, SplitInfo

RECORD_BYTES = 100
counts = st.lists(st.integers(0, 60), min_size=1, max_size=5).filter(any)
seeds = st.integers(0, 2**63 - 1)
epochs = st.integers(0, 2**40)


def split_of(shard_records: list[int]) -> tuple[SplitInfo, pa.Table]:
    shards = tuple(ShardInfo(f"s{i}", n, n * RECORD_BYTES, "") for i, n in enumerate(shard_records))
    offsets = [k * RECORD_BYTES for n in shard_records for k in range(n)]
    index = pa.table({"offset": offsets, "length": [RECORD_BYTES] * len(offsets)})
    return SplitInfo(shards, {}), index


def cut(shard_records: list[int], chunk_records: int = 4, window_records: int = 16) -> Chunks:
    with (
        mock.patch("reader.chunks.CHUNK_RECORDS", chunk_records),
        mock.patch("reader.chunks.WINDOW_RECORDS", window_records),
    ):
        return cut_chunks(*split_of(shard_records), Path("index"))


@given(counts, st.integers(1, 9))
def test_chunks_cover_every_record_once_within_its_shard(records: list[int], size: int) -> None:
    chunks = cut(records, size)
    covered = [
        (shard, offset + k * RECORD_BYTES)
        for shard, offset, count in zip(chunks.shard, chunks.offset, chunks.count, strict=True)
        for k in range(count)
    ]
    assert covered == [(i, k * RECORD_BYTES) for i, n in enumerate(records) for k in range(n)]
    assert (chunks.first == np.cumsum(chunks.count) - chunks.count).all()
    assert (chunks.size == chunks.count * RECORD_BYTES).all()
    assert chunks.count.max() <= size


def test_large_records_make_small_chunks_and_windows() -> None:
    with (
        mock.patch("reader.chunks.CHUNK_BYTES", 8 * RECORD_BYTES),
        mock.patch("reader.chunks.WINDOW_BYTES", 32 * RECORD_BYTES),
    ):
        chunks = cut_chunks(*split_of([100]), Path("index"))
    assert (chunks.chunk_records, chunks.window_chunks) == (8, 4)


def test_an_index_of_another_length_is_damage() -> None:
    split, index = split_of([10])
    with pytest.raises(DamageError, match=r"one row per record \(10\), got 9 in index"):
        cut_chunks(split, index.slice(1), Path("index"))


@given(counts, seeds, epochs)
def test_an_epoch_has_each_record_exactly_once(records: list[int], seed: int, epoch: int) -> None:
    found = order.epoch_order(cut(records), seed, epoch, shuffle=True)
    assert sorted(found) == list(range(sum(records)))


@given(seeds, epochs)
def test_order_depends_on_seed_and_epoch_and_nothing_else(seed: int, epoch: int) -> None:
    chunks = cut([30, 34])
    found = order.epoch_order(chunks, seed, epoch, shuffle=True)
    assert (found == order.epoch_order(chunks, seed, epoch, shuffle=True)).all()
    assert (found != order.epoch_order(chunks, seed, epoch + 1, shuffle=True)).any()
    assert (found != order.epoch_order(chunks, (seed + 1) % 2**63, epoch, shuffle=True)).any()


def test_the_order_is_part_of_the_format() -> None:
    """Written down: whoever changes these numbers breaks the resume of runs under way."""
    found = order.epoch_order(cut([10], 2, 4), seed=1, epoch=2, shuffle=True)
    assert found.tolist() == [3, 9, 8, 2, 5, 0, 4, 1, 7, 6]
    random = order.uniforms([3], 2, seed=1, epoch=2)
    assert random.tolist() == [[0.3833548426628113, 0.7971541881561279]]


def test_without_shuffle_the_order_is_that_on_disk() -> None:
    assert (order.epoch_order(cut([9, 3]), 5, 1, shuffle=False) == np.arange(12)).all()


def test_a_split_of_one_window_is_permuted_evenly() -> None:
    """Every record comes at every position equally often: nothing sticks to its chunk."""
    chunks = cut([8], chunk_records=4, window_records=8)
    orders = np.array([order.epoch_order(chunks, 0, e, shuffle=True) for e in range(4000)])
    for position in range(8):
        share = np.bincount(orders[:, position], minlength=8) / len(orders)
        assert np.abs(share - 1 / 8).max() < 0.03  # 5.7 standard deviations


@settings(deadline=None, max_examples=20)
@given(counts, seeds, epochs)
def test_tensorflow_computes_the_same_order(records: list[int], seed: int, epoch: int) -> None:
    chunks = cut(records)
    tensor = tf.constant(epoch, tf.int64)
    read = order_graph.chunk_order(len(chunks.first), seed, tensor, shuffle=True).numpy()
    assert (read == order.chunk_order(chunks, seed, epoch, shuffle=True)).all()

    numbers = np.arange(sum(records))
    found = order_graph.record_order(tf.constant(numbers), seed, tensor, shuffle=True).numpy()
    every = np.arange(len(chunks.first))
    assert (numbers[found] == order.window_order(chunks, every, seed, epoch, shuffle=True)).all()

    random = order_graph.uniforms(tf.constant(numbers), 3, seed, tensor).numpy()
    assert (random == order.uniforms(numbers, 3, seed, epoch)).all()


def test_random_numbers_are_uniform_and_independent() -> None:
    numbers = order.uniforms(np.arange(20_000), 4, seed=0, epoch=0)
    assert numbers.dtype == np.float32 and numbers.min() >= 0 and numbers.max() < 1
    histogram = np.histogram(numbers, bins=10, range=(0, 1))[0] / numbers.size
    assert np.abs(histogram - 0.1).max() < 0.006
    correlation = np.corrcoef(np.hstack([numbers, np.roll(numbers, 1, axis=0)]).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.04
