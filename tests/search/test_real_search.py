"""The command, with trials that really train."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[2]
COMMON = "model: tiny:dense\nimage-size: 8\nbatch-size: 8\nprecision: float32\n"


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Trials import tiny."""
    paths = [str(ROOT), str(ROOT / "tests/trainer/programs")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture
def space(tmp_path):
    def space(text):
        path = tmp_path / "space.yaml"
        path.write_text(COMMON + text)
        return path

    return space


@pytest.mark.proof
def test_a_search_ends_with_a_table_a_plot_and_the_best_options(
    write_set, space, shardmill, tmp_path
):
    """One trial learns, the other one diverges."""
    data, path = (
        write_set(train=40, validation=13, test=9),
        space("epochs: 2\nlearning-rate: [0.01, 1e30]"),
    )
    done = shardmill("search", data, path, "--method", "grid", "--parallel", 2)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "space-search"
    first, second = csv.DictReader((out / "trials.csv").open())
    assert (first["state"], second["state"]) == ("completed", "diverged")
    assert "The loss is" in second["reason"] and "diverged 001: The loss is" in done.stdout
    assert (
        f"best       {out / 'trials/000'}, validation loss {float(first['value']):.4f}"
        in done.stdout
    )
    assert f"shardmill train {data} --run-dir=best-run --model=tiny:dense" in done.stdout
    assert "--validation-split=validation" in done.stdout
    history = json.loads((out / "trials/000/history.json").read_text())
    assert min(epoch["val_loss"] for epoch in history) == float(first["value"])
    assert keras.models.load_model(out / "trials/000/best.keras").count_params()
    assert (out / "search.png").read_bytes().startswith(b"\x89PNG")

    again = shardmill("search", data, path, "--method", "grid", "--json")
    assert again.returncode == 0, again.stderr
    summary = json.loads(again.stdout)
    assert (summary["best"], summary["completed"], summary["diverged"]) == (0, 1, 1)
    assert summary["best_options"] == {"learning_rate": 0.01}


def test_a_set_without_validation_is_refused_and_the_test_split_is_not_used(
    write_set, space, shardmill
):
    data = write_set(train=40, test=9)
    done = shardmill("search", data, space("learning-rate: [0.01, 0.1]"))
    assert done.returncode == 2
    assert "no split 'validation' to compare trials on, only train, test" in done.stderr
    done = shardmill("search", data, space("seed: [1, 2]\nvalidation-split: test"))
    assert done.returncode == 2
    assert "which then measures nothing any more" in done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("seed: [1]", [], "names no set. Add 'data: SET' to it"),
        ("seed: [1]", ["x", "y"], "Pass one SPACE, or SET and SPACE"),
        ("seed: [1]", ["SET", "--method", "grid", "--trials", 3], "is for random and bayesian"),
        ("max-tokens: [8, 16]", ["SET"], "--max-tokens 8 does not apply to images"),
        ("ema: {low: 0.5, high: 0.9}", ["SET", "--method", "grid"], "Add 'points: 4'"),
    ],
)
def test_mistakes_are_found_before_a_trial_is_started(
    write_set, space, shardmill, tmp_path, text, arguments, message
):
    data = write_set(train=8, validation=8)
    places = [data if argument == "SET" else argument for argument in arguments]
    done = shardmill("search", *places[:1], space(text), *places[1:])
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert not (tmp_path / "space-search").exists()


@pytest.mark.proof
def test_a_killed_search_ends_as_one_that_never_was(write_set, space, shardmill, tmp_path):
    """Trials resume at a checkpoint within an epoch, with the same losses to the bit."""
    data = write_set(train=251, validation=61)
    path = space("epochs: 3\ncheckpoint-minutes: 1e-5\nlearning-rate: [0.01, 0.001, 0.1]")
    options = ("--method", "grid", "--pruner", "none")
    process = subprocess.Popen([sys.executable, "-m", "cli.main", "search", data, path, *options])
    wanted, end = tmp_path / "space-search/trials/001/history.json", time.monotonic() + 300
    while not wanted.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert shardmill("search", data, path, *options).returncode == 0
    other = tmp_path / "other"
    assert shardmill("search", data, path, *options, "--run-dir", other).returncode == 0

    def trials(directory):
        rows = json.loads((directory / "search.json").read_text())["trials"]
        return [(trial["options"], trial["state"], trial["values"]) for trial in rows]

    assert trials(tmp_path / "space-search") == trials(other)
