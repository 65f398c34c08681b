"""Units to workers as they become free, on an engine that would deal them out beforehand.

Beam's local engine cuts the elements of a stage into one equal share per worker before it begins,
so the whole job waits for the unluckiest worker. When its workers are threads or processes of this
machine, the first unit that reaches a worker makes it take units from a common queue until none is
left; the other units of its share then find nothing to do. On a cluster there is no queue, and a
worker stages the unit it was given. There must be none where a bundle may run twice, for the second
time it would find nothing; `runners.deals_here` knows.

The queue is the table of units and a file that holds how many were taken.
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
def dealt_here(run_id: str, workspace: Workspace) -> Iterator[None]:
    """While this lasts, workers on this machine share the units of the run."""
    counter = _counter(run_id, workspace)
    counter.write_text("0".zfill(_DIGITS))
    try:
        yield
    finally:
        counter.unlink(missing_ok=True)


def take(run_id: str, given: Unit, workspace: Workspace) -> Iterator[Unit]:
    """What a worker that was given a unit should stage: each unit goes to exactly one worker."""
    try:
        descriptor = os.open(_counter(run_id, workspace), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield given
        return
    try:
        count = len(read_table(workspace.unit_table))
        units: list[Unit] = []
        while (number := _next(descriptor)) < count:
            units = units or list(largest_first(workspace))
            yield units[number]
    finally:
        os.close(descriptor)


def _counter(run_id: str, workspace: Workspace) -> Path:
    return workspace.work / f"dealt-{run_id}"


def _next(descriptor: int) -> int:
    """Takes a number that nobody else gets."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        number = int(os.pread(descriptor, _DIGITS, 0))
        os.pwrite(descriptor, str(number + 1).zfill(_DIGITS).encode(), 0)
        return number
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
