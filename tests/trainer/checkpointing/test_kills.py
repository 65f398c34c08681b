"""SIGKILL at any moment, then the same command: the weights of a run that was never killed."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from outcomes import assert_same


@pytest.fixture
def start(write_set):
    """Runs in forks of one process, which has TensorFlow loaded; see killed_runs.py."""
    program = Path(__file__).parents[1] / "programs" / "killed_runs.py"
    root = Path(__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, str(program), str(write_set(train=70, validation=13))],  # 8 steps an epoch
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )

    def run(directory, moment, code=0, strategy="default", epochs=3):
        process.stdin.write(json.dumps([str(directory), strategy, epochs, moment]) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        # A run may be at its end before the clock is.
        assert answer["code"] in (code, 0 if moment.startswith("cpu") else code)
        return answer

    yield run
    process.stdin.close()
    process.wait()


# How many steps one call into the graph has depends on their time: of a kill within an epoch only
# bounds of the place are certain.
FOUND = {
    "train:1:3": (1, 0, 0),
    "recording:3": (1, 1, 2),
    "naming:3": (1, 3, 7),
    "validation:1:1": (1, 4, 8),
    "history:1": (1, 8, 8),
    "train:2:3": (1, 8, 8),
    "never": (2, 1, 2),
}
FOUND_BY_TWO = {"train:1:3": (1, 0, 0), "never": (1, 1, 2)}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("strategy", "found"),
    [("default", FOUND), ("mirrored", FOUND_BY_TWO), ("pipeline", FOUND_BY_TWO)],
)
def test_a_run_killed_between_two_operations_resumes_at_the_place_before(
    start, tmp_path, strategy, found
):
    for moment, (epoch, low, high) in found.items():
        code = 0 if moment == "never" else -signal.SIGKILL
        first_epoch, first_step = start(tmp_path / "cut", moment, code, strategy)["began"]
        assert first_epoch == epoch and low <= first_step <= high, moment
    start(tmp_path / "whole", "never", strategy=strategy)
    assert_same(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.proof
# One kill alone may come when the run has ended: each takes other CPU time.
@pytest.mark.parametrize(
    ("strategy", "rounds", "kills_each"),
    [("default", 1, 2), ("default", 10, 5), ("mirrored", 2, 5), ("pipeline", 2, 5)],
)
def test_a_run_killed_at_seeded_moments_ends_like_one_that_was_not(
    start, tmp_path, strategy, rounds, kills_each
):
    """The earliest kill first: it does little, and leaves enough for the others."""
    whole = tmp_path / "whole"
    span = start(whole, "cpu:1000", strategy=strategy)["seconds"]
    kills = 0
    for number in range(rounds):
        draw, cut = random.Random(number), tmp_path / str(number)
        for part in range(kills_each):
            moment = (part + draw.random()) / kills_each * span
            kills += start(cut, f"cpu:{moment}", -signal.SIGKILL, strategy)["code"] != 0
        start(cut, "cpu:1000", strategy=strategy)
        assert_same(whole, cut)
    assert kills >= (kills_each + 1) // 2 * rounds
