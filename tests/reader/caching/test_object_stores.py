"""Sets in a bucket of a real S3 server, behind a proxy that delays, breaks and counts requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from foundation import storage
from foundation.storage import object_stores
from shard_format import load_manifest

proxies = pytest.importorskip("tests.servers.proxy")
faults = pytest.importorskip("tests.servers.faults")
servers = pytest.importorskip("tests.servers.versitygw")

pytestmark = pytest.mark.engine

OPTIONS: dict[str, Any] = {"batch_size": 10, "image_size": 16, "augment": "standard", "seed": 3}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("s3")
    with (
        servers.versitygw(folder) as server,
        proxies.proxy(server, folder / "proxy", latency=0.005) as started,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in started.server.environment.items():
            patch.setenv(name, value)
        object_stores.forget_connections()
        yield started
    object_stores.forget_connections()


@pytest.fixture(autouse=True)
def without_faults(running: Any) -> None:
    running.set(faults=[])
    running.reset()


def upload(directory: Path, running: Any, name: str) -> str:
    """Puts a set into the bucket; gives its URL."""
    url = storage.place_of(f"{running.server.bucket}/{name}")
    for path in directory.rglob("*"):
        if path.is_file():
            storage.write_bytes(url / path.relative_to(directory).as_posix(), path.read_bytes())
    return str(url)


@pytest.fixture(scope="module")
def url(tiny: Path, running: Any) -> str:
    """The tiny set in the bucket."""
    return upload(tiny, running, "tiny")


def read(directory: Any, **options: Any) -> list[Any]:
    stream = reader.load(directory, **OPTIONS | options)
    return [[part.numpy() for part in batch] for batch in stream.dataset]


@pytest.mark.parametrize(
    "options",
    [
        {"cache": "off"},
        {"cache": "off", "worker": (1, 2)},
        {"cache": "off", "shuffle": "full"},
        {"cache": "memory"},
        {"cache": "disk"},
        {"cache": "disk", "cache_stage": "decoded"},
    ],
)
def test_the_batches_are_those_of_the_directory(
    tiny: Path, url: str, tmp_path: Path, same: Any, small_windows: None, options: dict[str, Any]
) -> None:
    own = {name: options[name] for name in ("worker", "shuffle") if name in options}
    local = read(tiny, epochs=2, cache="off", **own)
    assert same(local, read(url, epochs=2, cache_dir=tmp_path, **options))


def test_requests_are_those_that_are_counted(running: Any, url: str, tmp_path: Path) -> None:
    """A chunk is a request: what `shardmill read` says is what the server has seen."""
    stream = reader.load(url, cache="off", cache_dir=tmp_path, epochs=1, **OPTIONS)
    running.reset()
    before = storage.traffic()
    assert len(list(stream.dataset)) == stream.steps_per_epoch
    after = storage.traffic()
    counts = running.counts()
    assert after.requests - before.requests == sum(counts.kinds.values())
    assert after.received_bytes - before.received_bytes == sum(counts.received.values())
    assert after.received_bytes - before.received_bytes == stream.info.stored_bytes


def test_a_server_that_goes_away_for_seconds_is_waited_for(
    running: Any, tiny: Path, url: str, tmp_path: Path, same: Any, small_windows: None
) -> None:
    local = read(tiny, epochs=2, cache="off")
    stream = reader.load(url, epochs=2, cache="off", cache_dir=tmp_path, **OPTIONS)
    taken = []
    for batch in stream.dataset:
        taken.append([part.numpy() for part in batch])
        if len(taken) == 5:
            running.set(faults=[faults.Fault("reset-before")])
            back = threading.Timer(3, running.set, kwargs={"faults": []})
            back.start()
    back.join()
    assert running.counts().faults["reset-before"] > 0
    assert same(local, taken)


def test_a_server_that_stays_away_is_one_error(running: Any, url: str, tmp_path: Path) -> None:
    stream = reader.load(url, epochs=2, cache="off", cache_dir=tmp_path, **OPTIONS)
    running.set(faults=[faults.Fault("status", status=503)])
    begin = time.monotonic()
    with pytest.raises(tf.errors.UnknownError, match=r"ShardSetError: Cannot read s3://.*503"):
        list(stream.dataset)
    assert time.monotonic() - begin < 200
    running.set(faults=[])
    assert len(list(stream.dataset)) == 22  # the data set is as good as new


def test_a_damaged_record_is_named(running: Any, make_set: Any, tmp_path: Path) -> None:
    directory = make_set({"train": (5,)})
    shard = directory / load_manifest(directory).splits["train"].shards[0].file
    content = bytearray(shard.read_bytes())
    content[500] ^= 1
    shard.write_bytes(content)
    url = upload(directory, running, "damaged")
    stream = reader.load(url, batch_size=5, image_size=8, cache="off", cache_dir=tmp_path)
    with pytest.raises(tf.errors.UnknownError, match=rf"{url}/{shard.name} at byte 0 \(record '"):
        next(iter(stream.dataset))
    done = command("read", url, "--cache=off", "--batch-size=5", f"--cache-dir={tmp_path}")
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert f"{shard.name} at byte 0" in done.stderr.splitlines()[-1]


def test_records_by_number_come_with_many_requests_at_a_time(
    running: Any, tiny: Path, url: str
) -> None:
    local, remote = reader.random_access(tiny), reader.random_access(url)
    for number in (0, -1, 7):
        assert np.array_equal(local[number]["image"], remote[number]["image"])
    running.set(latency=0.05)
    running.reset()
    keys = [100, 3, 57, 3, 109, 60]
    ids = [one["id"] for one in remote.__getitems__(keys)]
    running.set(latency=0.005)
    assert ids == [local[key]["id"] for key in keys]
    assert running.counts().most_in_flight > 1
    assert [one["id"] for one in remote] == [one["id"] for one in local]


def test_the_index_of_a_set_in_a_bucket_is_exported(tiny: Path, url: str, tmp_path: Path) -> None:
    here, there = reader.export_index(tiny, out=tmp_path), reader.export_index(url)
    for own, other in zip(here.files["train"], there.files["train"], strict=True):
        assert storage.read_bytes(own) == storage.read_bytes(other)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "cli.main", *arguments]
    return subprocess.run(words, capture_output=True, text=True, timeout=500, check=False)


def test_the_command_says_requests_a_second(url: str, tmp_path: Path) -> None:
    done = command("read", url, "--seconds=1", "--cache=off", f"--cache-dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert "requests/s to the store" in done.stdout and "from the store" in done.stdout


TRAIN = ("--model=small_cnn", "--image-size=32", "--batch-size=10", "--epochs=12", "--json")


def losses(run_dir: Path) -> list[Mapping[str, Any]]:
    """What the epochs of a run ended with, without times."""
    epochs = json.loads((run_dir / "history.json").read_text())
    return [{name: one[name] for name in ("epoch", "loss", "accuracy")} for one in epochs]


@pytest.mark.timeout(900)
def test_a_training_resumes_from_a_bucket(
    running: Any, tiny: Path, url: str, tmp_path: Path
) -> None:
    """SIGTERM in the middle; in the end the same losses as on the directory, uninterrupted."""
    local = command("train", str(tiny), f"--run-dir={tmp_path / 'local'}", *TRAIN)
    assert local.returncode == 0, local.stderr
    options = [f"--run-dir={tmp_path / 'run'}", f"--cache-dir={tmp_path / 'cache'}", "--cache=off"]
    words = [sys.executable, "-m", "cli.main", "train", url, *options, *TRAIN]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 500
    while not (tmp_path / "run" / "history.json").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 143, errors
    resumed = command("train", url, *options, *TRAIN)
    assert resumed.returncode == 0, resumed.stderr
    assert losses(tmp_path / "run") == losses(tmp_path / "local")
    assert len(losses(tmp_path / "run")) == 12
