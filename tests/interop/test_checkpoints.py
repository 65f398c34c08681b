"""States as the checkpoints of PyTorch, Grain and Keras ask for them: the harnesses of others."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader

pytestmark = pytest.mark.interop
OPTIONS: dict[str, Any] = {"batch_size": 10, "image_size": 8, "augment": "standard", "epochs": 2}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    out = tmp_path_factory.mktemp("checkpoints") / "set"
    preprocess(
        ImageOptions(
            (str(samples),), str(out), name="clothing", resize="shorter:24", num_shards=4,
            split="train=1.0", workers=1,
        )
    )  # fmt: skip
    return out


def load(directory: Path, **changes: Any) -> reader.Stream:
    return reader.load(directory, **{**OPTIONS, "batch_size": 32, **changes})


def plain(batches: Any) -> list[tuple[bytes, list[int]]]:
    return [(np.asarray(images).tobytes(), labels.tolist()) for images, labels in batches]


def stateful(stream: reader.Stream, **options: Any) -> Any:
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(stream.torch(), batch_size=None, **options)


@pytest.mark.parametrize(
    ("workers", "persistent", "every"), [(0, False, 1), (3, False, 1), (3, True, 1), (2, True, 5)]
)
def test_torchdata_goes_on_after_any_interrupt(
    directory: Path, workers: int, persistent: bool, every: int
) -> None:
    whole = plain(load(directory))
    options = {
        "num_workers": workers, "persistent_workers": persistent, "snapshot_every_n_steps": every,
    }  # fmt: skip
    for interrupt in (0, 1, 10):
        loader = stateful(load(directory), **options)
        batches = iter(loader)
        taken = plain(itertools.islice(batches, interrupt))
        state = json.loads(json.dumps(loader.state_dict()))
        assert taken + plain(batches) == whole
        resumed = stateful(load(directory), **options)
        resumed.load_state_dict(state)
        assert plain(resumed) == whole[interrupt:]
        assert plain(resumed) == whole  # the next iteration is a whole one again


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_begins_again_at_an_end(directory: Path, workers: int) -> None:
    loader = stateful(load(directory), num_workers=workers)
    whole = plain(loader)
    end = loader.state_dict()
    assert plain(loader) == whole
    other = stateful(load(directory), num_workers=workers)
    other.load_state_dict(end)
    assert plain(other) == whole


def test_torchdata_asked_for_a_state_right_after_a_resume(directory: Path) -> None:
    whole = plain(load(directory))
    loader = stateful(load(directory), num_workers=4, snapshot_every_n_steps=3)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    loader.load_state_dict(loader.state_dict())
    batches = iter(loader)
    assert plain([next(batches), next(batches)]) == whole[5:7]
    other = stateful(load(directory), num_workers=4)
    other.load_state_dict(loader.state_dict())
    assert plain(other) == whole[7:]


def test_workers_and_ranks_may_change(directory: Path) -> None:
    import torch

    whole = plain(load(directory, features=()))
    stream = load(directory)
    loader = torch.utils.data.DataLoader(stream.torch(), batch_size=None, num_workers=3)
    taken = plain(itertools.islice(loader, 5))
    state = stream.state(global_step=stream.first_step + len(taken))
    assert len(json.dumps(state)) <= 1000
    ranks = []
    for rank in range(2):
        own = load(directory, state=json.loads(json.dumps(state)), worker=(rank, 2))
        loader = torch.utils.data.DataLoader(own.torch(), batch_size=None, num_workers=1 + rank)
        ranks.append([labels.tolist() for _, labels in loader])
    joined = [sorted(one + two) for one, two in zip(*ranks, strict=True)]
    assert joined == [sorted(labels) for _, labels in whole[5:]]
    assert taken == whole[:5]


def test_a_worker_that_is_killed_is_named_and_the_state_is_good(directory: Path) -> None:
    import torch

    whole = plain(load(directory))
    stream = load(directory)
    loader = torch.utils.data.DataLoader(
        stream.torch(), batch_size=None, num_workers=2, prefetch_factor=1
    )
    batches = iter(loader)
    taken = plain(itertools.islice(batches, 3))
    for worker in batches._workers:
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"worker \(pid.* \d+\) (is killed by signal|exited)"):
        taken += plain(batches)
    rest = load(directory, state=stream.state(global_step=len(taken)))
    assert taken + plain(rest.torch()) == whole


def test_a_map_style_data_set_for_samplers(directory: Path) -> None:
    import torch

    records = reader.random_access(directory)
    sampler = torch.utils.data.RandomSampler(records, generator=torch.Generator().manual_seed(3))
    loader = torch.utils.data.DataLoader(records, sampler=sampler, batch_size=None, num_workers=2)
    ids = [record["id"] for record in loader]
    assert len(ids) == len(set(ids)) == len(records)


def test_grain_checkpoints(directory: Path) -> None:
    import grain

    for changes in ({}, {"shuffle": "full", "cache": "memory"}, {"shuffle": "off"}):
        dataset = load(directory, batch_size=64, **changes).grain()
        grain.experimental.assert_equal_output_after_checkpoint(dataset)
    limited = grain.experimental.LimitIterDataset(load(directory, epochs=None).grain(), count=7)
    grain.experimental.assert_equal_output_after_checkpoint(limited)
    mapped = load(directory).grain().map(lambda batch: batch[1] * 2)
    grain.experimental.assert_equal_output_after_checkpoint(mapped)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4)])
def test_grain_iterators_of_more_or_fewer_ranks(directory: Path, before: int, after: int) -> None:
    def iterators(ranks: int) -> list[Any]:
        streams = (
            load(directory, batch_size=8, epochs=1, features=("id",), worker=(rank, ranks))
            for rank in range(ranks)
        )
        return [iter(stream.grain()) for stream in streams]

    ids = []
    first = iterators(before)
    for iterator in first:
        for _ in range(7):
            ids += next(iterator)[0]["id"].tolist()
    states = [iterator.get_state() for iterator in first]
    assert all(state == states[0] for state in states)
    for iterator in iterators(after):
        iterator.set_state(states[0])
        for inputs, _ in iterator:
            ids += inputs["id"].tolist()
    records = reader.random_access(directory, decode=False)
    assert len(ids) == len(set(ids)) == len(records) - len(records) % 8


def test_the_elastic_iterator_of_grain(directory: Path) -> None:
    import grain

    records = reader.random_access(directory)
    source = grain.MapDataset.source(records).map(lambda record: np.bytes_(record["id"])).shuffle(4)
    whole = {bytes(one) for one in source}
    whole_batch = grain.experimental.ElasticIterator(source, 5, grain.sharding.NoSharding())
    grain.experimental.assert_equal_output_after_checkpoint(whole_batch)

    def iterators(ranks: int, batch: int) -> list[Any]:
        return [
            grain.experimental.ElasticIterator(
                source, batch, grain.sharding.ShardOptions(shard_index=rank, shard_count=ranks)
            )
            for rank in range(ranks)
        ]

    ids: list[bytes] = []
    first = iterators(4, 8)
    for iterator in first:
        for _ in range(7):
            ids += next(iterator).tolist()
    for rank in iterators(2, 2):
        rank.set_state(first[0].get_state())
        for batch in rank:
            ids += batch.tolist()
    assert len(ids) == len(set(ids)) >= len(whole) - 1 and set(ids) <= whole


def test_keras_trains_on_grain(directory: Path) -> None:
    import keras

    stream = load(directory, epochs=None)
    model = keras.Sequential(
        [keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(10, "softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    history = model.fit(stream.grain(), steps_per_epoch=4, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


def test_tfds_measures_it(directory: Path) -> None:
    import tensorflow_datasets as tfds

    for view in (load(directory), load(directory).numpy(), load(directory).dataset):
        result = tfds.benchmark(view, batch_size=32)
        assert result.stats.loc["lasts", "num_examples"] >= 32 * (len(load(directory)) - 1)
