"""What each stage takes: the chains that are cut short, what they read, and the clocks on them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_pipeline import (
    dataset_of,
    open_again,
    sample_numbers,
    sampled_pipeline,
)
from reader.profiling.stages import measure_stages, parsers_by_stage
from reader.profiling.storage_benchmark import (
    evict,
    in_page_cache,
    measure_storage,
    record_runs,
)
from shard_format import UsageError
from tests.fixtures.proofs import proof

SECONDS = 0.05


@pytest.fixture(autouse=True)
def one_round(monkeypatch) -> None:
    """What a stage takes is not asked here, only that it is measured."""
    monkeypatch.setattr("reader.profiling.stages._ROUNDS", 1)


@pytest.fixture
def documents(token_set):
    return token_set(train=[([1 + n % 40] * (1 + n % 9), n % 2) for n in range(120)])


def test_every_stage_of_images_is_measured(tiny) -> None:
    stream = reader.load(tiny, batch_size=4, image_size=8, augment="standard", cache="off")
    seen: list[str] = []
    times = measure_stages(stream, SECONDS, seen.append)
    names = [stage.name for stage in times.stages]
    assert names == ["storage", "parse", "decode", "augment", "batch"]
    assert set(seen) == set(names) - {"batch"}
    assert all(stage.cpu_seconds >= 0 for stage in times.stages)
    assert times.slowest.cpu_seconds == max(stage.cpu_seconds for stage in times.stages)
    assert times.reads_files
    assert times.chain.seconds > 0


def test_a_stage_of_a_batch_may_be_missing_and_files_may_be_read_once(packed_set) -> None:
    packed = packed_set(8, train=[[[1, 2, 3], [4, 5]]] * 40)
    times = measure_stages(reader.load(packed, batch_size=4, cache="memory"), SECONDS)
    assert [stage.name for stage in times.stages] == ["storage", "parse", "augment"]
    assert not times.reads_files


@pytest.mark.proof
@pytest.mark.parametrize(("pad", "buckets"), [("longest", 1), ("none", 3), ("max", 3)])
def test_every_prefix_of_token_ids_gives_batches(documents, pad, buckets) -> None:
    stream = reader.load(documents, batch_size=4, augment="strong", pad=pad, buckets=buckets)
    pipeline = sampled_pipeline(stream)
    parsers = parsers_by_stage(pipeline.parser)
    assert [name for name, _ in parsers] == ["storage", "parse", "augment", "batch"]
    for _, parser in parsers:
        batch = next(iter(dataset_of(dataclasses.replace(pipeline, parser=parser))))
        assert tf.nest.flatten(batch, expand_composites=False)[0].shape[0] == 4


def test_every_prefix_of_texts_gives_batches(text_set) -> None:
    data = text_set(train=[(f"some words {n}", n % 2) for n in range(40)])
    pipeline = sampled_pipeline(reader.load(data, batch_size=4, augment="standard"))
    parsers = parsers_by_stage(pipeline.parser)
    assert [name for name, _ in parsers] == ["storage", "parse", "augment"]
    for _, parser in parsers:
        assert (
            tf.nest.flatten(next(iter(dataset_of(dataclasses.replace(pipeline, parser=parser)))))[
                0
            ].shape[0]
            == 4
        )


@proof
def test_decoded_images_are_measured_as_the_cache_has_them(tiny) -> None:
    options = {"batch_size": 4, "image_size": 8, "augment": "standard", "epochs": 2}
    stream = reader.load(tiny, **options, cache="memory", cache_stage="decoded")
    pipeline = sampled_pipeline(stream)
    assert pipeline.options.epochs is None
    for expected, batch in zip(stream.dataset, dataset_of(pipeline), strict=False):
        tf.nest.map_structure(np.testing.assert_array_equal, expected, batch)
    times = measure_stages(stream, SECONDS)
    assert [stage.name for stage in times.stages][:3] == ["storage", "parse", "decode"]
    assert not times.reads_files


def test_the_last_prefix_is_the_stream_itself(tiny) -> None:
    """A sample that is the whole split gives the very batches of the stream."""
    options = {"batch_size": 4, "image_size": 8, "augment": "strong", "seed": 3}
    stream = reader.load(tiny, **options, epochs=2, cache="off")
    pipeline = sampled_pipeline(stream)
    _, parser = parsers_by_stage(pipeline.parser)[-1]
    made = dataset_of(dataclasses.replace(pipeline, parser=parser)).take(2 * stream.steps_per_epoch)
    for expected, batch in zip(stream.dataset, made, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, expected, batch)


def test_buckets_of_a_sample_are_those_of_its_own_lengths(documents, monkeypatch) -> None:
    """Records that stand for others bring their own lengths, or batches would be of all lengths."""
    monkeypatch.setattr("reader.profiling.sampled_pipeline.SAMPLE_RECORDS", 7)
    stream = reader.load(documents, batch_size=4, buckets=8, cache="off")
    opened = open_again(stream)
    numbers = sample_numbers(opened, 7)
    pipeline = sampled_pipeline(stream)
    asked = tf.range(20, dtype=tf.int64)
    serialized = pipeline.windows.record_reader.read(asked)
    assert pipeline.windows.lengths is not None
    lengths = pipeline.windows.lengths(asked)
    spec = {"tokens": tf.io.RaggedFeature(tf.int64)}
    tokens = tf.io.parse_example(serialized, spec)["tokens"].row_lengths()
    np.testing.assert_array_equal(lengths, tokens)
    assert len(numbers) <= 7


@pytest.mark.parametrize("most", [1, 5, 64, 10**6])
def test_samples_are_records_of_the_split(documents, most) -> None:
    opened = open_again(reader.load(documents, batch_size=4))
    numbers = sample_numbers(opened, most)
    assert 1 <= len(numbers) <= min(most, 120)
    assert numbers.min() >= 0
    assert numbers.max() < 120
    assert (np.diff(numbers) > 0).all()


@pytest.mark.parametrize("shuffle", ["window", "full", "off"])
def test_storage_is_read_as_the_stream_reads_it(documents, shuffle) -> None:
    opened = open_again(reader.load(documents, batch_size=4, shuffle=shuffle))
    times = measure_storage(opened, SECONDS)
    assert times.record_bytes == pytest.approx(opened.info.stored_bytes / opened.info.records)
    assert times.warm_seconds > 0
    assert times.cold_seconds is None or times.cold_seconds > 0


def test_places_are_where_the_records_lie(documents) -> None:
    opened = open_again(reader.load(documents, batch_size=4))
    runs = record_runs(opened, np.arange(120))
    assert [path.name for path, _, _ in runs] == sorted({path.name for path, _, _ in runs})
    assert sum(size for _, _, size in runs) == opened.info.stored_bytes
    separate = record_runs(opened, np.array([0, 2, 4]))
    assert len(separate) == 3


def test_what_was_evicted_and_read_again_is_in_the_page_cache(documents) -> None:
    runs = record_runs(open_again(reader.load(documents, batch_size=4)), np.arange(120))
    evict(runs)
    for path, offset, size in runs:
        with path.open("rb") as file:
            file.seek(offset)
            assert len(file.read(size)) == size
    assert all(in_page_cache(run) for run in runs)


@pytest.mark.proof
def test_a_split_of_less_than_a_batch_is_measured(documents) -> None:
    """One epoch of it can be read, its batch being partial; endless, it is filled up."""
    stream = reader.load(documents, batch_size=1000, epochs=1)
    assert len(list(stream.dataset)) == 1
    assert measure_stages(stream, SECONDS).chain.seconds > 0


def test_measuring_needs_time_and_a_single_set(documents, tiny) -> None:
    stream = reader.load(documents, batch_size=4)
    with pytest.raises(UsageError, match=r"seconds is 0 .* Pass a number above 0"):
        measure_stages(stream, 0)


@pytest.mark.parametrize(
    ("seconds", "cpu", "others", "alone"),
    [(10, 10, 0, 10), (10, 10, 1, 5), (10, 19, 1, 9.5), (10, 5, 2, 2.5), (10, 0, 0, 10)],
)
def test_a_clock_takes_off_what_others_took(monkeypatch, seconds, cpu, others, alone) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda: 2)
    assert Elapsed(seconds, cpu, others).alone_seconds == alone


def test_a_clock_goes_forward() -> None:
    clock = Clock()
    total = sum(number * number for number in range(200_000))
    elapsed = clock.elapsed()
    assert total > 0
    assert elapsed.seconds > 0
    assert elapsed.cpu_seconds > 0
    assert elapsed.others_cores >= 0
