"""What each stage takes: the chains that are cut short, what they read, and the clocks on them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import reader
from reader.profiling.clock import Clock, Elapsed
from reader.profiling.sampled_loader import (
    open_again,
    read_places,
    sample_numbers,
    sampled_loader,
)
from reader.profiling.stages import loaders_by_stage, measure_stages
from reader.profiling.storage_benchmark import (
    evict,
    in_page_cache,
    measure_storage,
    record_runs,
)
from shard_format import UsageError
from shard_format.example_parser import parse_examples
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
    assert names == ["storage", "parse", "decode", "augment"]
    assert set(seen) == set(names)
    assert all(stage.cpu_seconds >= 0 for stage in times.stages)
    assert times.slowest.cpu_seconds == max(stage.cpu_seconds for stage in times.stages)
    assert times.reads_files
    assert times.chain.seconds > 0


def test_a_stage_of_a_batch_may_be_missing_and_files_may_be_read_once(packed_set) -> None:
    packed = packed_set(8, train=[[[1, 2, 3], [4, 5]]] * 40)
    times = measure_stages(reader.load(packed, batch_size=4, cache="memory"), SECONDS)
    assert [stage.name for stage in times.stages] == ["storage", "parse", "augment"]
    assert not times.reads_files


@pytest.mark.parametrize(("pad", "buckets"), [("longest", 1), ("none", 3), ("max", 3)])
def test_every_prefix_of_token_ids_gives_batches(documents, pad, buckets) -> None:
    stream = reader.load(
        documents, batch_size=4, augment="strong", pad=pad, buckets=buckets, max_tokens=6
    )
    loaders = loaders_by_stage(sampled_loader(stream))
    assert [name for name, _ in loaders] == ["storage", "parse", "augment", "batch"]
    for _, loader in loaders[:2]:
        assert next(loader.batches(0, 0)).shape == (4,)
    for _, loader in loaders[2:]:
        assert len(next(loader.batches(0, 0))[1]) == 4


def test_every_prefix_of_texts_gives_batches(text_set) -> None:
    data = text_set(train=[(f"some words {n}", n % 2) for n in range(40)])
    loaders = loaders_by_stage(sampled_loader(reader.load(data, batch_size=4, augment="standard")))
    assert [name for name, _ in loaders] == ["storage", "parse", "augment"]
    assert [len(next(loader.batches(0, 0))) for _, loader in loaders] == [4, 4, 2]


def assert_equal(batches: Any, expected: Any) -> None:
    for batch, other in zip(batches, expected, strict=True):
        for value, known in zip(batch, other, strict=True):
            np.testing.assert_array_equal(value, known)


@proof
def test_decoded_images_are_measured_as_the_cache_has_them(tiny) -> None:
    options = {"batch_size": 4, "image_size": 8, "augment": "standard", "epochs": 2}
    stream = reader.load(tiny, **options, cache="memory", cache_stage="decoded")
    loader = sampled_loader(stream)
    assert loader.options.epochs is None
    whole = list(stream)
    assert_equal(itertools.islice(loader.batches(0, 0), len(whole)), whole)
    times = measure_stages(stream, SECONDS)
    assert [stage.name for stage in times.stages][:3] == ["storage", "parse", "decode"]
    assert not times.reads_files


def test_the_last_prefix_is_the_stream_itself(tiny) -> None:
    """A sample that is the whole split gives the very batches of the stream."""
    options = {"batch_size": 4, "image_size": 8, "augment": "strong", "seed": 3}
    stream = reader.load(tiny, **options, epochs=2, cache="off")
    _, loader = loaders_by_stage(sampled_loader(stream))[-1]
    whole = list(stream)
    assert_equal(itertools.islice(loader.batches(0, 0), len(whole)), whole)


def test_buckets_of_a_sample_are_those_of_its_own_lengths(documents, monkeypatch) -> None:
    """Records that stand for others bring their own lengths, or batches would be of all lengths."""
    monkeypatch.setattr("reader.profiling.sampled_loader.SAMPLE_RECORDS", 7)
    stream = reader.load(documents, batch_size=4, buckets=8, cache="off")
    opened = open_again(stream)
    numbers = sample_numbers(opened, 7)
    windows = sampled_loader(stream).windows
    asked = np.arange(20)
    columns = parse_examples(windows.record_reader.read(asked), windows.features)
    assert windows.lengths is not None
    np.testing.assert_array_equal(windows.lengths[asked], np.diff(columns["tokens"].splits))
    assert len(numbers) <= 7


@pytest.mark.parametrize("most", [1, 5, 64, 10**6])
def test_samples_are_records_of_the_split(documents, most) -> None:
    opened = open_again(reader.load(documents, batch_size=4))
    numbers = sample_numbers(opened, most)
    assert 1 <= len(numbers) <= min(most, 120)
    assert numbers.min() >= 0
    assert numbers.max() < 120
    assert (np.diff(numbers) > 0).all()


def test_records_that_are_selected_are_measured(documents) -> None:
    stream = reader.load(documents, batch_size=4, where="label == 'class1' and tokens > 6")
    opened = open_again(stream)
    windows = sampled_loader(stream).windows
    assert opened.info.records == len(windows.record_reader.examples) == 19
    examples = read_places(opened, np.arange(19))
    columns = parse_examples(examples, windows.features)
    assert np.diff(columns["tokens"].splits).min() > 6
    runs = record_runs(opened, np.arange(19))
    assert sum(size for _, _, size in runs) > sum(len(examples[n]) for n in range(19))
    assert measure_stages(stream, SECONDS).stages[0].name == "storage"


def test_what_tensorflow_does_is_not_measured(tiny) -> None:
    class Dark:
        stage, num_random = "resized", 0

        def __call__(self, example, random):
            return {**example, "image": example["image"] / 2}

    stream = reader.load(tiny, batch_size=4, image_size=8, augment=["center_crop", Dark()])
    with pytest.raises(UsageError, match=r"Dark in augment runs in TensorFlow"):
        measure_stages(stream, SECONDS)


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
