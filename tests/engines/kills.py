"""SIGKILL in the middle of a job: it ends right, or the same command completes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.engines.flink import POOLS, TASK_MANAGERS, FlinkCluster
from tests.engines.jobs import Job, ended, printed, staged_units, wait_until

_DOWN_SECONDS = 5.0  # until a supervisor starts again what was killed


class Outcome(NamedTuple):
    """How a job with a kill in the middle went.

    Attributes:
        victim: The process that was killed.
        units: Number of units that were finished by then.
        by_itself: Whether the job ended right; else the same command completed it.
        seconds: From the kill to the finished set.
    """

    victim: str
    units: int
    by_itself: bool
    seconds: float


def kill_and_finish(
    cluster: FlinkCluster,
    job: Job,
    out: Path,
    victim: str,
    units: int,
    *,
    again: bool = True,
    done: Callable[[Path], int] = staged_units,
) -> Outcome:
    """Kills a process of the cluster in the middle of a job, and sees to the set.

    Args:
        cluster: Which is whole again at the end.
        job: What runs.
        out: Its output.
        victim: The name of the process.
        units: Number of finished units at which it is killed.
        done: Counts them for an output; or counts something else.
        again: Whether the process is started again while the job runs; else after it has failed.
    """
    process = job.start(out, cluster.beam_args)
    wait_until(lambda: done(out) >= units, process, f"{units} of {done.__name__}")
    units = done(out)
    cluster.processes.kill(victim)
    begun = time.monotonic()
    if again:
        time.sleep(_DOWN_SECONDS)
        cluster.start_again(victim)
    code, said = ended(process, out)
    by_itself = code == 0
    if not again:
        cluster.start_again(victim)
    if not by_itself:
        last = said.strip().splitlines()[-1]
        assert code == 3 and last.startswith("error: "), said
        assert "run the same command again" in last and "Traceback" not in said
        if victim in POOLS and again:  # a task of its TaskManager still waits for its worker
            waiting = TASK_MANAGERS[POOLS.index(victim)]
            cluster.processes.kill(waiting)
            cluster.start_again(waiting)
        code, said = job.run(out, cluster.beam_args)
        assert code == 0, printed(out)
    job.check(out)
    return Outcome(victim, units, by_itself, round(time.monotonic() - begun, 1))
