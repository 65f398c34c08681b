"""Streams where they are used: strategies, several processes, options, bytes that are read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from tests.fixtures.proofs import proofs

# Records are told by their labels. A replica's part of a batch is batch_size / replicas.
MIRRORED = """
import contextlib, json, sys
import tensorflow as tf
import keras
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import reader
directory = sys.argv[1]
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
whole = {"image_size": 8, "seed": 2, "augment": "strong", "cache": "off"}

def from_context(context):
    # The batch of all replicas of all workers is 20; a step takes a batch for each replica.
    batch = context.get_per_replica_batch_size(20) * context.num_input_pipelines
    worker = (context.input_pipeline_id, context.num_input_pipelines)
    return reader.load(directory, batch_size=batch, worker=worker, **whole).dataset

single = reader.load(directory, batch_size=20, **whole).dataset

def losses(scope):
    with scope:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(), keras.layers.Dense(131)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model.fit(single, steps_per_epoch=5, epochs=2, verbose=0).history["loss"]

def replicas(distributed):
    batches, found = iter(distributed), []
    for _ in range(5):
        parts = strategy.experimental_local_results(next(batches)[1])
        found.append([part.numpy().tolist() for part in parts])
    return found

print(json.dumps({
    "single": [labels.numpy().tolist() for _, labels in single.take(5)],
    "whole": replicas(strategy.experimental_distribute_dataset(single)),
    "context": replicas(strategy.distribute_datasets_from_function(from_context)),
    "losses": [losses(strategy.scope()), losses(contextlib.nullcontext())],
}))
"""

WORKER = """
import json, sys
import reader
directory, index, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
stream = reader.load(directory, batch_size=20, image_size=8, augment="strong", seed=2, epochs=1,
    remainder="drop", worker=(index, count))
print(json.dumps([[labels.numpy().tolist(), float(pictures.numpy().astype(float).sum())]
    for pictures, labels in stream.dataset]))
"""


def start(repository: Path, program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=repository,
    )


def answer(process: subprocess.Popen[str]) -> Any:
    out, error = process.communicate(timeout=240)
    assert process.returncode == 0, error[-3000:]
    return json.loads(out.splitlines()[-1])


@pytest.mark.proof
def test_a_mirrored_strategy_trains_on_the_same_records(tiny: Path, repository: Path) -> None:
    report = answer(start(repository, MIRRORED, tiny))
    for kind in ("whole", "context"):
        for parts, labels in zip(report[kind], report["single"], strict=True):
            assert [len(part) for part in parts] == [10, 10]
            assert [*parts[0], *parts[1]] == labels
    mirrored, alone = report["losses"]
    assert np.allclose(mirrored, alone, rtol=1e-4)


@pytest.mark.proof
def test_processes_share_every_batch(
    tiny: Path, repository: Path, taken: Callable[..., list[list[Any]]]
) -> None:
    processes = [start(repository, WORKER, tiny, index, 2) for index in range(2)]
    workers = [answer(process) for process in processes]
    options = {"image_size": 8, "augment": "strong", "seed": 2, "epochs": 1, "remainder": "drop"}
    whole = taken(reader.load(tiny, batch_size=20, **options).dataset)
    assert len(whole) == len(workers[0]) == len(workers[1]) == 5
    for step, (images, labels) in enumerate(whole):
        for index, worker in enumerate(workers):
            assert worker[step][0] == labels[index::2].tolist()
            assert worker[step][1] == images[index::2].astype(float).sum()


def test_options_arrive(tiny: Path) -> None:
    options = reader.load(tiny, batch_size=4, image_size=8, threads=3, ram_budget=1 << 28).dataset
    applied = options.options()
    assert applied.deterministic is True
    assert applied.threading.private_threadpool_size == 3
    assert (applied.autotune.cpu_budget, applied.autotune.ram_budget) == (3, 1 << 28)
    off = tf.data.experimental.AutoShardPolicy.OFF
    assert applied.experimental_distribute.auto_shard_policy == off
    applied = reader.load(tiny, batch_size=4, image_size=8).dataset.options()
    assert applied.threading.private_threadpool_size is None
    assert applied.experimental_distribute.auto_shard_policy == off


@pytest.mark.proof
@pytest.mark.parametrize("threads", [1, 16])
def test_order_holds_under_load(
    make_set: Callable[..., Path], taken: Callable[..., list[list[Any]]], threads: int
) -> None:
    """Images that take very different times to decode, by more threads than cores."""
    directory = make_set({"train": (60, 60)}, sizes=((8, 8), (600, 900), (20, 20)))
    options = {"batch_size": 24, "image_size": 8, "augment": "strong", "cache": "off"}
    options |= {"epochs": 2, "seed": 9}
    expected = taken(reader.load(directory, **options).dataset)
    stream = reader.load(directory, **options, threads=threads)
    for _ in range(2):
        for one, other in zip(taken(stream.dataset), expected, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def read_bytes() -> int:
    """What this process has read by system calls so far."""
    text = Path("/proc/self/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the counters of Linux")
@pytest.mark.parametrize("shuffle", ["full", *proofs("window", "off")])
def test_a_worker_reads_its_part_of_the_bytes(text_set: Callable[..., Path], shuffle: str) -> None:
    generator = np.random.default_rng(0)
    texts = ["".join(map(chr, generator.integers(97, 123, 4000))) for _ in range(1100)]
    directory = text_set(train=[(text, 0) for text in texts])
    options = {"batch_size": 32, "cache": "off", "epochs": 1, "remainder": "pad"}
    options |= {"shuffle": shuffle}
    stored = reader.load(directory, **options).info.stored_bytes
    seen: Counter[bytes] = Counter()
    for worker in ((0, 4), (1, 4), (2, 4), (3, 4)):
        stream = reader.load(directory, **options, worker=worker)
        list(stream.dataset.take(0))
        begin = read_bytes()
        for batch, _, weights in stream.dataset:
            seen.update(batch.numpy()[weights.numpy() > 0].tolist())
        assert read_bytes() - begin <= 1.1 / 4 * stored
    assert len(seen) == 1100 and set(seen.values()) == {1}
