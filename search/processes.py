"""Processes of trials: their shares of the machine, and why they failed."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from foundation.machine import usable_cores
from foundation.processes.children import ChildProcess, cause_of_end
from foundation.wording import shortened, visible

GRACE_SECONDS = 120.0  # to write a checkpoint, after which a process counts as hanging
_REASON_CHARACTERS = 300
# How a process ends that was asked to: after a checkpoint, or before it could handle signals.
INTERRUPTED = (128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT)


def failure_reason(process: ChildProcess, code: int) -> str:
    """Returns why a trial failed, in one line, from its exit code and its log."""
    if code < 0:
        often = ", as the kernel does when memory runs out" if code == -signal.SIGKILL else ""
        return f"ended by {cause_of_end(code)}{often}"
    lines = process.last_lines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    reason = (errors or lines or ["it printed nothing"])[-1]
    return shortened(visible(reason), _REASON_CHARACTERS)


def divided_cores(parallel: int) -> list[list[int]]:
    """Returns the cores of each of several parallel processes; empty where none can be chosen.

    All libraries see this limit: TensorFlow, tf.data, OpenCV and Arrow count the cores that a
    process may run on, and no environment variable is for all of them.
    """
    if parallel == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(parallel)]
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, int(usable_cores() / parallel))
    return [
        [cores[(index * share + offset) % len(cores)] for offset in range(share)]
        for index in range(parallel)
    ]


def environment_of(index: int, parallel: int, gpus: Sequence[str]) -> dict[str, str]:
    """Returns variables of one of several parallel processes: its GPUs, or numbers of threads.

    Args:
        index: Number of the process.
        parallel: Number of processes.
        gpus: What CUDA calls the GPUs that may be used.
    """
    variables: dict[str, str] = {}
    if parallel > 1 and not hasattr(os, "sched_setaffinity"):
        threads = str(max(1, int(usable_cores() / parallel)))
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        variables |= {name: threads for name in names if name not in os.environ}
    if gpus and parallel > 1:
        own = gpus[index::parallel] or [gpus[index % len(gpus)]]
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        if parallel > len(gpus):  # TensorFlow would take all memory of a GPU for the first process
            variables["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return variables
