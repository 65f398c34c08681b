"""A dynamic work queue: FnApiRunner would assign units to workers statically.

Beam's local engine divides the elements of a stage into one equal share per worker before the stage
begins, so the whole job waits for the slowest worker. If the workers are threads or processes on
this machine, the first unit that reaches a worker makes it take units from a common queue until
none is left; the other units of its share then find the queue empty. On a cluster there is no
queue, and a worker stages the unit it was assigned. There must be no queue where a bundle may run
twice, since the second run would find it empty; `runners.uses_work_queue` decides.

The queue is the table of units, and a file with how many of them there are and were taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from beam_jobs.stages.list import largest_first
from beam_jobs.staging.units import Unit
from beam_jobs.workspace import Workspace, read_table

_DIGITS = 20


@contextlib.contextmanager
def work_queue(run_id: str, workspace: Workspace) -> Iterator[None]:
    """Within this context, workers on this machine share the units of the run."""
    counter = _counter(run_id, workspace)
    counter.parent.mkdir(parents=True, exist_ok=True)
    count = len(read_table(workspace.unit_table))
    counter.write_text(f"{0:0{_DIGITS}}{count:0{_DIGITS}}")
    try:
        yield
    finally:
        counter.unlink(missing_ok=True)


def take(run_id: str, assigned: Unit, workspace: Workspace) -> Iterator[Unit]:
    """The units that a worker stages when one is assigned to it; no two workers get the same."""
    try:
        descriptor = os.open(_counter(run_id, workspace), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield assigned
        return
    try:
        count = int(os.pread(descriptor, _DIGITS, _DIGITS))
        units: list[Unit] = []
        while (number := _next(descriptor)) < count:
            units = units or list(largest_first(workspace))
            yield units[number]
    finally:
        os.close(descriptor)


def _counter(run_id: str, workspace: Workspace) -> Path:
    return workspace.this_machine / f"queue-{run_id}"


def _next(descriptor: int) -> int:
    """The next number, which no other worker gets."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        number = int(os.pread(descriptor, _DIGITS, 0))
        os.pwrite(descriptor, str(number + 1).zfill(_DIGITS).encode(), 0)
        return number
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
