"""Child processes: how they are started, and that they end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from foundation.processes.children import ChildProcess

_PARENT = """
import os, sys
from pathlib import Path
from foundation.processes.children import ChildProcess
ChildProcess(["sleep", "600"], Path(sys.argv[1]), {}, grace=1.0)
print(Path(f"/proc/self/task/{os.getpid()}/children").read_text(), flush=True)
input()
"""
_CHILD = """
import os, sys
os.write(int(sys.argv[1]), repr((os.sched_getaffinity(0), os.environ["A"])).encode())
"""


def test_nothing_that_blocks_a_fork_blocks_the_start_of_a_child(tmp_path: Path) -> None:
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(1))  # for good, but it is not called
    child = ChildProcess(["true"], tmp_path / "log", {}, grace=1.0)
    while child.poll() is None:
        time.sleep(0.01)
    assert child.poll() == 0
    assert not forks


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is told by Linux alone")
def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    for _ in range(1000):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("the child still runs")


def test_a_child_has_its_cores_its_variables_and_its_descriptors(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    reading, writing = os.pipe()
    child = ChildProcess(
        [sys.executable, "-c", _CHILD, str(writing)],
        tmp_path / "log",
        {"A": "b"},
        cores=[core],
        kept_open=[writing],
        grace=1.0,
    )
    os.close(writing)
    with os.fdopen(reading) as answers:
        assert answers.read() == repr(({core}, "b"))
    assert child.poll() in (0, None)


def test_the_log_has_what_a_child_says_last(tmp_path: Path) -> None:
    child = ChildProcess(["no-such-program"], tmp_path / "log", {}, grace=1.0)
    while child.poll() is None:
        time.sleep(0.01)
    assert child.poll() not in (0, None)
    assert "No such file or directory" in child.last_lines()[-1]
