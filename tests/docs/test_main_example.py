"""The tutorial on images: a worker is killed, then everything, and predictions are equal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.docs.test_commands import commands_of, read_page

pytestmark = pytest.mark.proof

# So that there is a checkpoint within an epoch of seconds, and one result on every machine.
FURTHER = ["--checkpoint-minutes", "0.001", "--precision", "float32"]


@pytest.fixture(scope="module")
def example():
    """The commands: preprocess, train, evaluate, export, predict."""
    names = ["preprocess", "train", "evaluate", "export", "predict"]
    commands = [
        command
        for command in commands_of(read_page("docs/tutorials/images.md"))
        if command[1] in names and "--dry-run" not in command
    ]
    assert [command[1] for command in commands] == names
    return commands


@pytest.fixture(scope="module")
def start(folder, repository):
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(repository),
    }

    started: list[subprocess.Popen[str]] = []

    def start(*command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:  # the time limit of the test
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def completed(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out, err


def await_step(run: Path, process: subprocess.Popen[str], count: int) -> None:
    """Returns when so many checkpoints were named the latest."""
    seen: set[str] = set()
    while len(seen) < count:
        assert process.poll() is None, process.communicate()
        latest = run / "checkpoints" / "checkpoint"
        if latest.exists():
            seen.add(latest.read_text())
        time.sleep(0.05)


def predictions(start, export, predict, run: str, out: str) -> dict[str, float]:
    renamed = [run if part == "run" else out if part == "served" else part for part in export]
    completed(start(*renamed))
    stdout, _ = completed(start(*predict[:2], out, *predict[3:], "--json"))
    return json.loads(stdout.splitlines()[-1])


def test_a_killed_run_predicts_what_an_uninterrupted_one_does(example, start, folder):
    preprocess, train, evaluate, export, predict = example
    completed(start(*preprocess))
    train = [*train, *FURTHER]
    whole = [part if part != "run" else "whole" for part in train]
    completed(start(*whole))
    out, _ = completed(start(*evaluate[:2], "whole", "--json"))
    measured = json.loads(out.splitlines()[-1])
    assert measured["records"] == 60 and measured["baseline"]["accuracy"] == pytest.approx(0.1)
    assert measured["accuracy"] > 0.25  # by chance once in 5,000 times

    process = start(*train)
    await_step(folder / "run", process, 2)
    workers = [child for child in psutil.Process(process.pid).children(recursive=True)]
    trained = [child for child in workers if "train" in shlex.join(child.cmdline())]
    trained[-1].send_signal(signal.SIGKILL)
    await_step(folder / "run", process, 4)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    out, err = completed(start(*train))
    assert "validation" in out, err

    whole_run, hurt_run = (
        predictions(start, export, predict, run, f"served-{run}") for run in ("whole", "run")
    )
    assert whole_run == hurt_run
    assert len(json.dumps(hurt_run)) > 100
