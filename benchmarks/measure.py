"""Runs subjects in turns, each run in a process of its own, and writes results.

Subjects take turns, so that a slow minute of the machine affects all of them. Ratios are computed
within a turn, and their median over the turns counts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
_MOST_SAID = 20_000  # characters of what a subject that failed printed
_OURS = ("benchmarks", "tests")  # packages that are never those of another worktree


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one subject.

    Attributes:
        records: Records that the subject processed.
        seconds: Time on the clock of the subject, without imports and warm-up.
        cpu_seconds: CPU time in these seconds, child processes included.
        peak_mib: Greatest proportional size (PSS) of the process tree: pages that several processes
            share count once, mapped files too.
        private_mib: Greatest part of it that belongs to no file.
        details: Other figures that the subject reported.
        command: What was run.
    """

    records: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    private_mib: float
    details: dict[str, Any]
    command: str = ""

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Records per CPU second."""
        return self.records / self.cpu_seconds


Subjects = Mapping[str, Callable[[], Run]]


def parser(name: str, description: str | None, *, turns: bool = True) -> argparse.ArgumentParser:
    """Returns a parser with the options of all benchmarks: scratch folder and number of turns."""
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if turns:
        made.add_argument("--turns", type=int, default=3, help="runs of each subject")
    made.add_argument("--work", type=_absolute, default=HERE / ".work", help="scratch folder")
    return made


def _absolute(text: str) -> Path:
    return Path(text).resolve()  # subjects have another working directory


class SubjectFailure(SystemExit):
    """A subject failed, or hung.

    Attributes:
        command: The command that did.
    """

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message)
        self.command = command


def run(
    subject: str,
    *arguments: object,
    python: str = sys.executable,
    worktree: Path | None = None,
    variables: Mapping[str, str] | None = None,
    sample_seconds: float = 0.5,
    most_seconds: float = 3600,
) -> Run:
    """Runs `python -m benchmarks.subjects.SUBJECT ARGUMENTS`.

    Args:
        subject: Module of benchmarks/subjects.
        arguments: Arguments, passed as text.
        python: Interpreter, for subjects with an environment of their own.
        worktree: Version of this repository whose packages are measured; this one if None.
        variables: Further environment variables.
        sample_seconds: Time between two samples of memory. A sample of many pages takes
            milliseconds of a core, and stops the process meanwhile.
        most_seconds: Time after which a subject that hangs is killed.

    Raises:
        SubjectFailure: It failed, or hung; says what it printed.
    """
    command = ["-m", f"benchmarks.subjects.{subject}", *map(str, arguments)]
    with contextlib.ExitStack() as stack:
        path = [HERE.parent]
        if worktree is not None:
            path.insert(0, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            _link_packages(worktree.resolve(), path[0])
        environment = {
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            **(variables or {}),
        }
        process = subprocess.Popen(
            [python, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # Python puts the working directory in front of the path.
            cwd=path[0],
        )
        peak_mib, private_mib = _watch(process, sample_seconds, most_seconds)
        output, errors = process.communicate()
    words = shlex.join(["python", *command])
    if process.returncode:
        said = errors.decode(errors="replace")[-_MOST_SAID:]
        raise SubjectFailure(f"{subject} failed:\n{said}", words)
    printed = json.loads(output.splitlines()[-1])
    return Run(**printed, peak_mib=peak_mib, private_mib=private_mib, command=words)


def _link_packages(worktree: Path, folder: Path) -> None:
    """Links the packages of a worktree, so that they and our subjects are imported."""
    for package in worktree.iterdir():
        if (package / "__init__.py").exists() and package.name not in _OURS:
            (folder / package.name).symlink_to(package)


def _watch(
    process: subprocess.Popen[bytes], sample_seconds: float, most_seconds: float
) -> tuple[float, float]:
    """Samples the sizes of a process tree until it ends; pipes hold more than a subject prints."""
    peak = private = 0.0
    begun = time.monotonic()
    while process.poll() is None:
        if time.monotonic() - begun > most_seconds:
            kill_tree(process.pid)
        total, own = _tree_mib(process.pid)
        peak, private = max(peak, total), max(private, own)
        time.sleep(sample_seconds)
    return round(peak, 1), round(private, 1)


def kill_tree(pid: int) -> None:
    """Kills a process and all that descend from it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [*root.children(recursive=True), root]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _tree_mib(pid: int) -> tuple[float, float]:
    """MiB of a process and its descendants: all pages in proportion, and those of no file."""
    total = own = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with contextlib.suppress(OSError, psutil.NoSuchProcess):  # it has ended
                lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
                kib = {key: int(size.split()[0]) for key, size in (x.split(":") for x in lines)}
                total += kib["Pss"]
                own += kib["Pss_Anon"]
    return total / 1024, own / 1024


def in_turns(names: Sequence[str], turns: int) -> Iterator[tuple[int, str]]:
    """(turn, name): every subject once a turn.

    Every second turn goes backwards, so that no subject always follows the same other one.
    """
    for turn in range(turns):
        for name in names[:: -1 if turn % 2 else 1]:
            yield turn, name


def take_turns(title: str, subjects: Subjects, turns: int) -> dict[str, Any]:
    """Runs every subject once a turn, and prints a table of medians.

    Ratios are to the first subject, in the same turn.

    Returns:
        The medians and the runs of each subject.
    """
    runs: dict[str, list[Run]] = {name: [] for name in subjects}
    for turn, name in in_turns(list(subjects), turns):
        runs[name].append(subjects[name]())
        print(f"{title} {turn + 1}/{turns}  {name}: {runs[name][-1]}", flush=True)
    first = next(iter(runs.values()))
    medians: dict[str, Any] = {}
    print(f"\n{title:<44}{'records/s':>10}{'ratio':>8}{'CPU':>8}{'peak MiB':>10}{'ratio':>8}")
    for name, own in runs.items():
        pairs = list(zip(own, first, strict=True))
        row = {
            "records_per_second": statistics.median(one.rate for one in own),
            "ratio": statistics.median(one.rate / base.rate for one, base in pairs),
            "cpu_ratio": statistics.median(one.cpu_rate / base.cpu_rate for one, base in pairs),
            "peak_mib": statistics.median(one.peak_mib for one in own),
            "memory_ratio": statistics.median(one.peak_mib / base.peak_mib for one, base in pairs),
        }
        rate, ratio, cpu, peak, memory = row.values()
        print(f"{name:<44}{rate:>10,.0f}{ratio:>8.2f}{cpu:>8.2f}{peak:>10,.0f}{memory:>8.2f}")
        medians[name] = {key: round(value, 3) for key, value in row.items()}
        medians[name]["runs"] = [dataclasses.asdict(one) for one in own]
    print(flush=True)
    return medians


def write(name: str, results: Mapping[str, Any]) -> None:
    """Writes results/NAME.json, with date, command and machine; the scratch folder is WORK."""
    file = HERE / "results" / f"{name}.json"
    about = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.{name} {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
    }
    text = json.dumps(about | dict(results), indent=1)
    given = dict(itertools.pairwise(sys.argv)).get("--work")
    for folder in filter(None, (given, str(HERE / ".work"))):
        text = text.replace(folder, "WORK")
    file.write_text(text + "\n")
    print(f"written to {file.relative_to(HERE.parent)}", flush=True)


def machine() -> dict[str, object]:
    """Cores, memory, processor, system and Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(": ")[1] for line in lines if line.startswith("model name")]
    return {
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "processor": models[0] if models else "unknown",
        "platform": platform.system(),
        "python": platform.python_version(),
    }
