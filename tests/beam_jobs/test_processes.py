"""Worker processes of the local engine: the same sets, and no process that is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from beam_jobs import ImageOptions, preprocess
from beam_jobs.engine import processes
from beam_jobs.engine.processes import LOST_WORKER, should_use_processes, worker_processes
from shard_format import InputError, UsageError, verify

SMALL_UNITS = {"unit_size": "2KiB", "num_shards": 4, "workers": 2}


@pytest.fixture
def loaded(monkeypatch):
    """Waits until workers are ready, so that threads do none of their work; what was taken."""
    taken, connections = processes.WorkerProcesses._take, []

    def take(self):
        while (connection := taken(self)) is None and self._loading:
            time.sleep(0.005)
        connections.append(connection)
        return connection

    monkeypatch.setattr(processes.WorkerProcesses, "_take", take)
    return connections


def workers() -> list[psutil.Process]:
    """The process that forks workers, and the workers."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "beam_jobs.engine.worker" in one.cmdline()]


def test_processes_build_the_same_set(kind, build, loaded):
    corpus = kind.make(40)
    (corpus / "class0" / kind.file("broken")).write_bytes(b"\xff\xd8 not a record")
    expected = build(corpus, "threads", worker_type="threads", **SMALL_UNITS)
    assert not loaded
    report = build(corpus, "processes", worker_type="processes", **SMALL_UNITS)
    assert None not in loaded and len(loaded) >= report.build["units"] > 10
    assert report.manifest.root_hash == expected.manifest.root_hash
    assert verify(report.out)[1] == []
    assert not workers()


def test_what_a_user_can_fix_arrives_as_it_is(kind, build, loaded):
    corpus = kind.make(20)
    broken = corpus / "class0" / kind.file("broken")
    broken.write_bytes(kind.damaged((corpus / "class1" / kind.file("001")).read_bytes()))
    with pytest.raises(InputError, match=rf"^class0/{broken.name} is rejected as "):
        build(corpus, "set", worker_type="processes", on_bad="fail", **SMALL_UNITS)
    assert loaded and not workers()


@pytest.mark.parametrize("kind", ["image"], indirect=True)
def test_killed_workers_are_reported_and_the_job_resumes(kind, build, loaded, monkeypatch):
    corpus, do = kind.make(40), processes.WorkerProcess.do
    calls = 0

    def kill_at_the_sixth(self, work, element):
        nonlocal calls
        calls += 1
        if calls == 6:
            parent = next(one for one in workers() if one.ppid() == os.getpid())
            for worker in parent.children():
                worker.kill()
        return do(self, work, element)

    with monkeypatch.context() as patch:
        patch.setattr(processes.WorkerProcess, "do", kill_at_the_sixth)
        with pytest.raises(InputError, match=LOST_WORKER[:40]):
            build(corpus, "set", worker_type="processes", **SMALL_UNITS)
    assert not workers()
    report = build(corpus, "set", worker_type="processes", **SMALL_UNITS)
    assert report.build["units_reused"] >= 4 and verify(report.out)[1] == []


@pytest.mark.parametrize("kind", ["image"], indirect=True)
def test_workers_that_cannot_start_leave_the_job_to_threads(kind, build, tmp_path, monkeypatch):
    corpus = kind.make(20)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    report = build(corpus, "set", worker_type="processes", **SMALL_UNITS)
    assert verify(report.out)[1] == []


class Sleeps:
    """Work that takes long."""

    def setup(self, count):
        pass

    def process(self, element):
        time.sleep(element)
        yield os.getpid()

    def finish(self):
        pass


def test_another_error_keeps_its_traceback():
    with worker_processes("image", 2) as started, _ready(started) as worker:
        with pytest.raises(RuntimeError, match=r"(?s)A worker process failed: .*TypeError"):
            worker.do(Sleeps(), "long")
        assert worker.do(Sleeps(), 0) == worker.do(Sleeps(), 0)  # it works after an error


def test_workers_end_with_their_launcher():
    program = (
        "import sys, time\n"
        "from tests.beam_jobs.test_processes import Sleeps, _ready\n"
        "from beam_jobs.engine.processes import worker_processes\n"
        "with worker_processes('image', 2) as started, _ready(started) as worker:\n"
        "    print(*worker.do(Sleeps(), 0), flush=True)\n"
        "    worker.do(Sleeps(), 600)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    busy = psutil.Process(int(launcher.stdout.readline()))
    forking = busy.parent()
    assert forking.num_threads() == 1  # a fork copies no other
    family = [forking, *forking.children()]
    launcher.send_signal(signal.SIGKILL)
    launcher.communicate()
    assert psutil.wait_procs(family, timeout=30)[1] == []


def _ready(started):
    while not any(connection.poll() for connection in started._loading):
        time.sleep(0.005)
    return started.one()


@pytest.mark.parametrize(
    ("runs_python", "mebibytes", "expected"),
    [(False, 100, False), (True, 10, False), (True, 20, True), (False, 1000, True)],
)
def test_larger_corpora_are_should_use_processes(runs_python, mebibytes, expected):
    assert should_use_processes(runs_python, mebibytes << 20) == expected


def test_beam_has_flags_of_its_own(make_images, tmp_path):
    options = ImageOptions(make_images(4), tmp_path / "set", worker_type="threads")
    with pytest.raises(UsageError, match="--worker-type is for jobs without Beam"):
        preprocess(options, ["--runner=FnApiRunner"])
