"""Training runs in buckets: killed ones end with the same weights on another machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from foundation import storage
from foundation.storage import place_of
from tests.servers.proxy import proxy
from tests.servers.server import Server
from tests.servers.test_builds import CLEAN, MIX, SERVERS, connected, shardmill

pytestmark = pytest.mark.engine

OPTIONS = ("--model", "small_cnn", "--image-size", "32", "--batch-size", "32", "--epochs", "3")
OPTIONS += ("--precision", "float32", "--checkpoint-minutes", "0.000001", "--cache", "off")
KILLS = ("run.json", "ckpt-1.index", "ckpt-2.json", "ckpt-3.data-00000-of-00001", "model.keras")


@pytest.fixture(scope="module")
def built(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[np.ndarray]]:
    """A set, and the weights of the run on it that nothing stopped."""
    folder = tmp_path_factory.mktemp("local")
    out = folder / "set"
    done = shardmill(
        {}, "preprocess", "images", str(samples), "--out", str(out), "--resize=crop:32x32"
    )
    assert done.returncode == 0, done.stderr
    done = shardmill({}, "train", str(out), "--run-dir", str(folder / "run"), *OPTIONS)
    assert done.returncode == 0, done.stderr
    return out, keras.models.load_model(folder / "run" / "model.keras").get_weights()


def weights(run: str, folder: Path) -> list[np.ndarray]:
    path = folder / "fetched.keras"
    path.write_bytes(storage.read_bytes(place_of(f"{run}/model.keras")))
    return keras.models.load_model(path).get_weights()


def start(server: Server, data: Path, run: str, machine: Path) -> subprocess.Popen[bytes]:
    machine.mkdir()
    command = ["train", str(data), "--run-dir", run, *OPTIONS]
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *command],
        env={
            **CLEAN,
            **server.environment,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TMPDIR": str(machine),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_killed_run_goes_on_on_another_machine(scheme, built, tmp_path):
    data, expected = built
    with SERVERS[scheme](tmp_path) as server, connected(server):
        run = f"{server.bucket}/run"
        for number, name in enumerate(KILLS):
            killed = start(server, data, run, tmp_path / f"machine-{number}")
            while killed.poll() is None and not any(
                each.rpartition("/")[2] == name for each, _ in storage.list_tree(place_of(run))
            ):
                time.sleep(0.02)
            os.kill(killed.pid, signal.SIGKILL)
            assert killed.wait() in (-signal.SIGKILL, 0)  # it may just have ended
        last = start(server, data, run, tmp_path / "last")
        assert last.wait(timeout=280) == 0
        assert all(map(np.array_equal, weights(run, tmp_path), expected))
        names = [name for name, _ in storage.list_tree(place_of(run))]
        assert not [name for name in names if name.startswith("lock/")]
        assert len([name for name in names if name.startswith("checkpoints/")]) == 7
        for command in (("evaluate", run, "--json"), ("export", run, "--out", f"{tmp_path}/out")):
            done = shardmill(server.environment, *command)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scheme", SERVERS)
def test_a_run_through_faults_ends_with_the_same_weights(scheme, built, tmp_path):
    data, expected = built
    with SERVERS[scheme](tmp_path) as server, proxy(server, tmp_path / "proxy") as running:
        run = f"{server.bucket}/run"
        running.set(faults=MIX, seed=1)
        variables = running.server.environment
        done = shardmill(variables, "train", str(data), "--run-dir", run, *OPTIONS)
        assert done.returncode == 0, done.stderr
        assert sum(running.counts().faults.values()) >= 5
        with connected(server):
            assert all(map(np.array_equal, weights(run, tmp_path), expected))
