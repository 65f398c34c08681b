"""Runs a subject in a process of its own and watches what it takes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time

import psutil

_SAMPLE_SECONDS = 0.02


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one subject.

    Attributes:
        rate: Records per second, by the subject's own clock, imports and warm-up left out.
        seconds: What that clock showed.
        wall_seconds: Of the whole process, imports included.
        peak_mib: Greatest sum of the resident sizes of the process and all its children.
        cpu_seconds: Of the process while its clock ran, on all cores; None where it does not tell.
        details: What else the subject told of itself.
    """

    rate: float
    seconds: float
    wall_seconds: float
    peak_mib: float
    cpu_seconds: float | None = None
    details: dict[str, float] = dataclasses.field(default_factory=dict)


def run(
    subject: str,
    *arguments: object,
    python: str = sys.executable,
    sample_seconds: float = _SAMPLE_SECONDS,
) -> Run:
    """Runs `python -m benchmarks.subjects.SUBJECT ARGUMENTS`, which prints records and seconds.

    Args:
        subject: A module of benchmarks/subjects.
        arguments: Passed as text.
        python: The interpreter, for subjects in an environment of their own.
        sample_seconds: How often memory is looked at. Each look takes milliseconds of a core.
    """
    begun = time.perf_counter()
    process = subprocess.Popen(
        [python, "-m", f"benchmarks.subjects.{subject}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    peak = _watch(process, sample_seconds)
    output, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{subject} failed:\n{errors.decode(errors='replace')[-3000:]}")
    found = json.loads(output.splitlines()[-1])
    return Run(
        rate=found["records"] / found["seconds"],
        seconds=found["seconds"],
        wall_seconds=time.perf_counter() - begun,
        peak_mib=peak / (1 << 20),
        cpu_seconds=found.get("cpu_seconds"),
        details=found.get("details", {}),
    )


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
    """What a subject ends with."""
    found = {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}
    print(json.dumps(found), flush=True)
