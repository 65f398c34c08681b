"""Runs subjects in turns, each in its own process, and measures rate, CPU time and memory.

Subjects take turns, so that a slow minute of the machine affects all of them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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


Subjects = dict[str, Callable[[], Run]]


def take_turns(
    title: str, subjects: Subjects, repeat: int, *, alternating: bool = False
) -> dict[str, object]:
    """Runs every subject once a turn; ratios are to the first subject of the same turn.

    Args:
        title: Printed with every run.
        subjects: What to run, by name.
        repeat: Turns.
        alternating: Reverses the order of the subjects in every second turn.
    """
    runs: dict[str, list[Run]] = {name: [] for name in subjects}
    for turn in range(repeat):
        backwards = alternating and turn % 2 == 1
        for name in reversed(subjects) if backwards else subjects:
            runs[name].append(subjects[name]())
            print(f"{title} {turn + 1}/{repeat}  {name}: {runs[name][-1]}", flush=True)
    first = next(iter(runs.values()))
    found: dict[str, object] = {}
    columns = f"{'records/s':>10}{'ratio':>8}{'process s':>11}{'peak MiB':>10}{'x':>6}{'CPU':>7}"
    print(f"\n{title:<32}{columns}")
    for name, own in runs.items():
        ratio = statistics.median(a.rate / b.rate for a, b in zip(own, first, strict=True))
        memory = statistics.median(a.peak_mib / b.peak_mib for a, b in zip(own, first, strict=True))
        rate = statistics.median(one.rate for one in own)
        wall = statistics.median(one.wall_seconds for one in own)
        peak = statistics.median(one.peak_mib for one in own)
        cpu = _cpu_ratio(own, first)
        print(
            f"{name:<32}{rate:>10,.0f}{ratio:>8.2f}{wall:>11.1f}{peak:>10,.0f}{memory:>6.2f}"
            f"{'' if cpu is None else f'{cpu:>7.2f}'}"
        )
        found[name] = {
            "records_per_second": round(rate, 1),
            "ratio": round(ratio, 3),
            "cpu_ratio": cpu,
            "process_seconds": round(wall, 2),
            "peak_mib": round(peak, 1),
            "memory_ratio": round(memory, 3),
            "runs": [dataclasses.asdict(one) for one in own],
        }
    print(flush=True)
    return found


def _cpu_ratio(own: list[Run], first: list[Run]) -> float | None:
    """Records per CPU second, to those of the first subject; None where one does not report it."""
    ratios = [
        a.records / a.cpu_seconds / (b.records / b.cpu_seconds)
        for a, b in zip(own, first, strict=True)
        if a.cpu_seconds and b.cpu_seconds
    ]
    return round(statistics.median(ratios), 3) if len(ratios) == len(own) else None


def run(
    subject: str,
    *arguments: object,
    python: str = sys.executable,
    sample_seconds: float = _SAMPLE_SECONDS,
    worktree: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Run:
    """Runs `python -m benchmarks.subjects.SUBJECT ARGUMENTS`, which prints records and seconds.

    Args:
        subject: A module of benchmarks/subjects.
        arguments: Passed as text.
        python: The interpreter, for subjects that need their own environment.
        sample_seconds: How often memory is sampled. Each sample takes milliseconds of a core.
        worktree: The version of this repository to import, subject included; this one if None.
        variables: Of its environment, besides those of this process.
    """
    environment = {**os.environ} if worktree is None else worktree_environment(worktree)
    begun, cpu_begun = time.perf_counter(), _cpu_of_children()
    process = subprocess.Popen(
        [python, "-m", f"benchmarks.subjects.{subject}", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3", **(variables or {})},
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


def cpu_seconds() -> float:
    """CPU seconds of this process, and of its children that have ended."""
    return time.process_time() + _cpu_of_children()


def print_result(records: int, seconds: float, cpu_seconds: float | None = None) -> None:
    """Prints the last line of a subject."""
    found = {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}
    print(json.dumps(found), flush=True)


def peak_rss_mib() -> int:
    """The greatest resident size of this process, mapped files included.

    As ru_maxrss of getrusage, which however starts with the size of the parent of this process.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


def machine() -> dict[str, object]:
    """The machine of a result: cores, memory, processor, system and Python."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "processor": _processor(),
        "platform": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
