"""The end of a process that got SIGINT, whatever its main thread does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psutil
import pytest

# A main thread that no KeyboardInterrupt ends, as in native code, and a worker process.
STUBBORN = """
import subprocess, sys, time
from beam_jobs.engine.interrupts import exit_on_interrupt

worker = subprocess.Popen(["sleep", "100"], stdout=subprocess.DEVNULL)
with exit_on_interrupt({seconds}, lambda: print("interrupted", flush=True)):
    while True:
        try:
            print(worker.pid, flush=True)
            time.sleep(100)
        except KeyboardInterrupt:
            print("not yet", flush=True)
"""


def ends(pid, seconds=10):
    """Whether a process ends in time: the kernel takes a moment to end one that was killed."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(("seconds", "signals"), [(0.5, 1), (60, 2), (None, 2)])
def test_the_end_does_not_wait_for_the_main_thread(seconds, signals, repository):
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN.format(seconds=seconds)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=repository,
    )
    worker = int(process.stdout.readline())
    begun = time.monotonic()
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)  # two signals at once would be one
    output, _ = process.communicate(timeout=30)
    assert time.monotonic() - begun < 6
    assert process.returncode == 130 and output.endswith("interrupted\n")
    assert ends(worker)


def test_what_ends_by_itself_is_not_ended(repository):
    script = STUBBORN.format(seconds=0.2).replace("while True:", "for _ in range(1):")
    script += "time.sleep(1); worker.kill(); print('the rest')"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=repository
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and output == "not yet\nthe rest\n"
