"""The local engine: the steps of a job in threads and in processes, without Beam."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

from beam_jobs.engine.local import num_threads, run_here
from beam_jobs.pipeline import BUILDS, Step


class Double:
    """Counts its copies: an engine gives each worker one."""

    set_up: ClassVar[list[Double]] = []

    def setup(self, count):
        self.set_up.append(self)
        self.thread = threading.get_ident()

    def process(self, element, *whole):
        assert threading.get_ident() == self.thread
        yield 2 * element
        yield sum(map(sum, whole))

    def finish(self):
        self.finished = True


class Collect:
    def __init__(self, into):
        self.into = into

    def setup(self, count):
        pass

    def process(self, element, *whole):
        self.into.append((element, *whole))
        return iter(())

    def finish(self):
        pass


class List(Double):
    def process(self, element):
        yield from range(100)


def test_elements_and_whole_lists_arrive_in_order():
    collected: list[object] = []
    Double.set_up.clear()
    steps = [
        Step("List", List(), BUILDS),
        Step("Twice", Double(), "List", spread="Spread"),
        Step("Again", Double(), BUILDS, ("List",)),
        Step("Collect", Collect(collected), BUILDS, ("Twice", "Again")),
    ]
    run_here(steps, 7, workers=4)
    twice = [value for number in range(100) for value in (2 * number, 0)]
    assert collected == [(7, twice, [14, sum(range(100))])]
    assert all(one.finished for one in Double.set_up)
    assert len({id(one) for one in Double.set_up}) == len(Double.set_up) <= 1 + 4 + 1


def test_an_error_drops_what_waits_and_awaits_what_runs():
    done, wait = [], threading.Event()

    class Fails(List):
        def process(self, element):
            if element == 0:
                wait.wait(10)
                done.append(element)
            elif element == 1:
                wait.set()
                raise ValueError("the second")
            elif element > 2:
                done.append(element)
            yield element

    steps = [Step("List", List(), BUILDS), Step("Fails", Fails(), "List", spread="Spread")]
    with pytest.raises(ValueError, match="the second"):
        run_here(steps, None, workers=2)
    assert 0 in done and len(done) < 100


class LateProcesses:
    """Worker processes that are ready once some elements were asked for."""

    def __init__(self, after):
        self.after = after
        self.asked, self.done = 0, []
        self.lock = threading.Lock()

    @contextlib.contextmanager
    def one(self):
        with self.lock:
            self.asked += 1
            ready = self.asked > self.after
        yield self if ready else None

    def do(self, work, element):
        self.done.append(element)
        return [2 * element, 0]

    def finish_step(self):
        pass


def test_until_processes_are_ready_threads_take_the_last_elements():
    """Those are the smallest units: a thread that has a large one would not see a process."""
    processes, collected = LateProcesses(after=10), []
    steps = [
        Step("List", List(), BUILDS),
        Step("Twice", Double(), "List", spread="Spread"),
        Step("Collect", Collect(collected), BUILDS, ("Twice",)),
    ]
    run_here(steps, None, 2, processes)
    assert sorted(processes.done) == list(range(90))
    assert collected == [(None, [value for number in range(100) for value in (2 * number, 0)])]


def test_threads_that_wait_for_an_object_store_are_more(monkeypatch):
    monkeypatch.setattr("beam_jobs.engine.local.usable_cores", lambda: 1.5)
    assert (num_threads(None, remote=False), num_threads(None, remote=True)) == (2, 4)
    assert num_threads(3, remote=False) == 3


def test_a_local_job_loads_neither_beam_nor_tensorflow(make_images, tmp_path, repository):
    program = (
        "import sys\n"
        "from cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', sorted({'apache_beam', 'tensorflow', 'pandas'} & set(sys.modules)))\n"
    )
    command = ["preprocess", "images", make_images(6), "--out", tmp_path / "set", "--workers", 2]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, command)],
        capture_output=True,
        text=True,
        cwd=repository,
        check=True,
    )
    assert "root hash" in done.stdout and "LOADED []" in done.stdout
