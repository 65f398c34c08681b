"""Runs a subject in its own process and measures its rate, CPU time and memory."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import psutil

_SAMPLE_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one subject.

    Attributes:
        rate: Records per second, by the subject's own clock, without imports and warm-up.
        seconds: The time on that clock.
        records: The records in that time.
        wall_seconds: Of the process, imports included.
        process_cpu_seconds: Of the process and its children, on all cores, imports included.
        peak_mib: Greatest sum of the resident sizes of the process and all its children.
        cpu_seconds: Of the process while its clock ran, on all cores; None if not reported.
        details: What else the subject reported.
    """

    rate: float
    seconds: float
    records: int
    wall_seconds: float
    process_cpu_seconds: float
    peak_mib: float
    cpu_seconds: float | None = None
    details: dict[str, float] = dataclasses.field(default_factory=dict)


def run(
    subject: str,
    *arguments: object,
    python: str = sys.executable,
    sample_seconds: float = _SAMPLE_SECONDS,
    worktree: Path | None = None,
) -> Run:
    """Runs `python -m benchmarks.subjects.SUBJECT ARGUMENTS`, which prints records and seconds.

    Args:
        subject: A module of benchmarks/subjects.
        arguments: Passed as text.
        python: The interpreter, for subjects that need their own environment.
        sample_seconds: How often memory is sampled. Each sample takes milliseconds of a core.
        worktree: The version of this repository to import, subject included; this one if None.
    """
    environment = {**os.environ} if worktree is None else worktree_environment(worktree)
    begun, cpu_begun = time.perf_counter(), _cpu_of_children()
    process = subprocess.Popen(
        [python, "-m", f"benchmarks.subjects.{subject}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=worktree,
    )
    peak = _watch(process, sample_seconds)
    output, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{subject} failed:\n{errors.decode(errors='replace')[-3000:]}")
    found = json.loads(output.splitlines()[-1])
    return Run(
        rate=found["records"] / found["seconds"],
        seconds=found["seconds"],
        records=found["records"],
        wall_seconds=time.perf_counter() - begun,
        process_cpu_seconds=_cpu_of_children() - cpu_begun,
        peak_mib=peak / (1 << 20),
        cpu_seconds=found.get("cpu_seconds"),
        details=found.get("details", {}),
    )


def worktree_environment(worktree: Path) -> dict[str, str]:
    """The environment in which Python imports the packages of a worktree."""
    return {**os.environ, "PYTHONPATH": str(worktree)}


def _cpu_of_children() -> float:
    """CPU seconds of all children that have ended, and of their children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watch(process: subprocess.Popen[bytes], sample_seconds: float) -> int:
    """Samples the process tree until it ends. Pipes hold more than a subject prints."""
    peak = 0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        total = 0
        try:
            for one in [root, *root.children(recursive=True)]:
                try:
                    total += one.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
        except psutil.NoSuchProcess:
            break
        peak = max(peak, total)
        time.sleep(sample_seconds)
    return peak


def print_result(records: int, seconds: float, cpu_seconds: float | None = None) -> None:
    """Prints the last line of a subject."""
    found = {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}
    print(json.dumps(found), flush=True)
