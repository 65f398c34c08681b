"""Searches of trainings that are real processes and learn nothing."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from search.events import TrialChanged
from search.plot import draw
from search.searching import SearchStopped, search
from shard_format import InputError
from tests.search.drive import FAKE, make_plan
from trainer import TrainingError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def plan(tmp_path):
    def plan(space, **options):
        (tmp_path / "space.yaml").write_text(space)
        return make_plan(str(tmp_path / "space.yaml"), tmp_path / "search", **options)

    return plan


def run(plan, on_event=lambda event: None):
    return search(plan, FAKE, [], on_event)


def starts(plan, number):
    """How often the process of a trial was started."""
    return len((plan.directory / f"trials/{number:03d}/starts").read_text().splitlines())


def test_every_way_to_end_is_recorded_and_the_search_continues(plan):
    made = plan(
        "epochs: 2\noptimizer: [adamw, lion, lamb]\nlearning-rate: [0.2, 0.1, 0.6]",
        method="grid",
        parallel=2,
        num_trials=9,
    )
    trials = run(made)
    states = ["completed", "completed", "diverged", *["failed"] * 6]
    assert [trial.state for trial in trials] == states
    assert trials[1].values == pytest.approx((1.1, 0.6))
    assert trials[2].values == pytest.approx((1.6,))
    assert trials[2].reason.startswith("The loss is nan at step 1")
    assert trials[3].reason == "--optimizer lion does not work here"
    assert "SIGKILL, as the kernel does when memory runs out" in trials[6].reason
    state = json.loads((made.directory / "search.json").read_text())
    assert (state["best"], state["trials"][1]["run_dir"]) == (1, "trials/001")
    rows = list(csv.DictReader((made.directory / "trials.csv").open()))
    assert [row["state"] for row in rows] == states
    assert (rows[1]["learning-rate"], rows[1]["best_epoch"]) == ("0.1", "2")
    path = made.directory / "search.png"
    draw(path, trials, made.space.parameters, "validation loss")
    assert path.read_bytes().startswith(b"\x89PNG")

    # The same command again starts nothing, --retry-failed what failed.
    assert run(made) == trials
    assert (starts(made, 0), starts(made, 3)) == (1, 1)
    again = dataclasses.replace(made, options=dataclasses.replace(made.options, retry_failed=True))
    assert [trial.state for trial in run(again)] == states
    assert [starts(made, number) for number in range(9)] == [1] * 3 + [2] * 6


def test_a_hopeless_trial_is_stopped_and_a_hopeful_one_is_not(plan):
    rates = [0.1, 0.2, 0.3, 0.4, 0.45, 0.05]
    made = plan(f"epochs: 4\nweight-decay: 0.05\nlearning-rate: {rates}", method="grid")
    trials = run(made)
    assert [trial.state for trial in trials] == [*["completed"] * 4, "pruned", "completed"]
    assert trials[4].values == pytest.approx((1.45,))  # also where it came further meanwhile
    assert trials[5].value == pytest.approx(0.3)


def test_parallel_trials_run_at_the_same_time_on_their_share_of_the_cores(plan):
    made = plan("epochs: 1\nweight-decay: 0.3\nseed: [1, 2, 3]", method="grid", parallel=2)
    at_work, most = set(), 0

    def listen(event):
        nonlocal most
        if isinstance(event, TrialChanged) and event.trial.state == "running":
            at_work.add(event.trial.number)
        elif isinstance(event, TrialChanged):
            at_work.remove(event.trial.number)
        most = max(most, len(at_work))

    run(dataclasses.replace(made, num_trials=3), listen)
    assert most == 2
    cores = sorted(os.sched_getaffinity(0))
    for number in range(3):
        (line,) = (made.directory / f"trials/{number:03d}/starts").read_text().splitlines()
        own = json.loads(line.partition(" ")[2])
        assert set(own) <= set(cores) and len(own) <= max(1, len(cores) // 2)


def test_the_first_trials_failing_all_alike_end_the_search(plan):
    made = plan("epochs: 1\noptimizer: lion\nseed: [1, 2, 3, 4, 5]", method="grid", num_trials=5)
    with pytest.raises(TrainingError, match=r"first 3 trials failed.*lion does not work here"):
        run(made)
    mended = plan("epochs: 1\noptimizer: sgd\nseed: [1, 2]", method="grid", num_trials=2)
    assert [trial.state for trial in run(mended)] == ["completed"] * 2


def test_another_space_is_refused_with_the_difference_and_more_trials_are_not(plan):
    space = "epochs: 1\nlearning-rate: {low: 0.1, high: 0.2}"
    first = run(plan(space, method="random", num_trials=2))
    more = run(plan(space, method="random", num_trials=3))
    assert more[:2] == first and len(more) == 3
    with pytest.raises(InputError) as error:
        run(plan("epochs: 2\nlearning-rate: {low: 0.1, high: 0.3}", method="bayesian"))
    assert "method was 'random', is 'bayesian'" in str(error.value)
    assert "epochs was 1, is 2" in str(error.value)
    assert "learning-rate was 'low 0.1 high 0.2', is 'low 0.1 high 0.3'" in str(error.value)


def test_a_directory_of_something_else_is_left_alone(plan):
    made = plan("seed: [1]", method="grid")
    made.directory.mkdir()
    (made.directory / "run.json").write_text("{}")
    with pytest.raises(InputError, match=r"holds other files and no search\.json"):
        run(made)
    (made.directory / "search.json").write_text("{}")
    with pytest.raises(InputError, match="not the state of a search"):
        run(made)


@pytest.fixture
def drive(tmp_path):
    """Starts a search in a process of its own; what is left of it is killed at the end."""
    started = []

    def drive(parallel):
        command = [sys.executable, "-m", "tests.search.drive"]
        space, directory = tmp_path / "space.yaml", tmp_path / "search"
        process = subprocess.Popen(
            [*command, space, directory, str(parallel)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield drive
    for process in started:
        process.kill()
        process.communicate()


def await_trials(directory, process, count):
    """Returns when so many trials were begun, and the last one has done an epoch."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        if (directory / f"trials/{count - 1:03d}/history.json").exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"no {count} trials in {directory}")


LONG = 1  # seconds of an epoch: a signal after the first one comes before the last one
SLOW = "epochs: 4\nweight-decay: 0.1\nlearning-rate: {low: 0.1, high: 0.4}"


def test_a_killed_search_continues_where_it_was(plan, drive, tmp_path):
    made = plan(SLOW, method="random", pruner="none", num_trials=4)
    process = drive(2)
    await_trials(made.directory, process, 3)
    with pytest.raises(InputError, match="Another search is running"):
        run(made)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    trials = run(made)  # waits for the processes of the killed search
    assert [trial.state for trial in trials] == ["completed"] * 4
    assert all(len(trial.values) == 4 for trial in trials)
    assert 2 in [starts(made, number) for number in range(4)]
    undisturbed = run(dataclasses.replace(made, directory=tmp_path / "other"))
    assert [trial.options for trial in trials] == [trial.options for trial in undisturbed]
    assert [trial.values for trial in trials] == [trial.values for trial in undisturbed]


def test_a_signal_stops_the_trials_and_the_same_command_continues_them(plan):
    made = plan(f"epochs: 4\nweight-decay: [0.05, {LONG}]", method="grid", pruner="none")

    def stop(event):
        if isinstance(event, TrialChanged) and event.trial.number == 1 and event.trial.values:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SearchStopped) as stopped:
        run(made, stop)
    assert stopped.value.exit_code == 143
    assert "stopped by SIGTERM after 1 trial; 1 begun" in str(stopped.value)
    assert [trial.state for trial in run(made)] == ["completed"] * 2
    assert (starts(made, 0), starts(made, 1)) == (1, 2)


def test_a_trial_that_a_signal_from_elsewhere_ends_is_continued(plan):
    made = plan(f"epochs: 4\nweight-decay: [{LONG}]", method="grid", pruner="none")
    disturbed = []

    def disturb(event):
        if isinstance(event, TrialChanged) and event.trial.values and not disturbed:
            disturbed.append(starts(made, 0))
            pid = (made.directory / "trials/000/starts").read_text().split()[0]
            os.kill(int(pid), signal.SIGTERM)

    (trial,) = run(made, disturb)
    assert (trial.state, len(trial.values), starts(made, 0)) == ("completed", 4, 2)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("number", 7, "not numbered from 0 on"),
        ("number", "0", "number of a trial is '0'"),
        ("options", ["seed"], "options of a trial"),
        ("options", {"seed": [1]}, "options of trial 0"),
        ("options", {"run_dir": "elsewhere"}, "the space does not have: run_dir"),
        ("options", {"learning_rate": 5.0}, "does not allow"),
        ("state", "done", "'done'"),
        ("values", 5, "values of a trial is 5"),
        ("values", ["a"], "values of trial 0"),
        ("seconds", "x", "seconds of a trial"),
        ("seconds", -1, "after -1 seconds"),
        ("is_loss", 1, "is_loss of a trial"),
    ],
)
def test_an_edited_state_is_refused(plan, name, value, message):
    made = plan("epochs: 1\nlearning-rate: {low: 0.1, high: 0.2}", method="bayesian", num_trials=2)
    made.directory.mkdir()
    trial = {"number": 0, "options": {"learning_rate": 0.15}, "state": "completed"}
    trial |= {"values": [1.0], "is_loss": True, "seconds": 1.0, "reason": ""}
    content = {"identity": json.loads(json.dumps(made.identity)), "trials": [trial | {name: value}]}
    (made.directory / "search.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        run(made)


def test_an_edited_space_in_a_state_is_refused(plan):
    made = plan("epochs: 1\nseed: [1, 2]", method="grid", num_trials=2)
    run(made)
    path = made.directory / "search.json"
    content = json.loads(path.read_text())
    for identity in (5, None, [], {}, {**content["identity"], "space": "seed"}):
        path.write_text(json.dumps(content | {"identity": identity}))
        with pytest.raises(InputError, match="holds another search"):
            run(made)
