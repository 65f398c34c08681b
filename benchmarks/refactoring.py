"""Two versions of this repository: `python -m benchmarks.refactoring --before DIR --after DIR`.

DIR are two git worktrees. Both preprocess the same images and the same documents, and read the same
shard set, which the version before built. They take turns within one run, and change places in
every turn, so that noise of the machine hits both; ratios are taken within a turn, and their median
counts. Every run is a process that imports the packages and the benchmark subject of its worktree.

    git worktree add ../before COMMIT
    python -m benchmarks.refactoring --before ../before --after .

Results go to benchmarks/results/refactoring.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.corpus import make_corpus
from benchmarks.measure import Run, machine, run, take_turns, worktree_environment
from benchmarks.text_corpus import make_jsonl

_HERE = Path(__file__).parent
_TASKS = ("images", "text", "reading")
_PACKAGES = ("foundation", "shard_format", "beam_jobs", "reader", "benchmarks")


def main() -> None:
    """Runs everything, prints tables, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.refactoring",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", type=Path, required=True, metavar="DIR", help="a worktree")
    parser.add_argument("--after", type=Path, required=True, metavar="DIR", help="another")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of both")
    parser.add_argument("--repeat", type=int, default=5, help="turns; the median counts")
    parser.add_argument("--images", type=int, default=8400, help="in the corpus of images")
    parser.add_argument("--documents", type=int, default=60_000, help="in the corpus of text")
    parser.add_argument("--seconds", type=float, default=8, help="of every run that reads")
    parser.add_argument("--only", choices=_TASKS, action="append")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "refactoring.json")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    worktrees = {
        "before": arguments.before.resolve(),
        "after": arguments.after.resolve(),
    }
    for worktree in worktrees.values():
        _check_imports(arguments.python, worktree)
    photos = make_corpus(work / f"corpus-{arguments.images}", arguments.images)
    tasks: dict[str, tuple[object, ...]] = {
        "images": ("shardmill_preprocess", photos, work / "images", "exact"),
        "text": (
            *("shardmill_text", make_jsonl(work / "texts", arguments.documents)),
            *(work / "text", "default", "exact"),
        ),
        "reading": ("shardmill_read", work / "set", "window", "off", arguments.seconds),
    }
    chosen = arguments.only or _TASKS
    if "reading" in chosen:
        measured = run(
            *("shardmill_preprocess", photos, work / "set", "off"),
            python=arguments.python,
            worktree=worktrees["before"],
        )
        print(f"built the set to read: {measured}", flush=True)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "versions": {name: _commit(worktree) for name, worktree in worktrees.items()},
        "images": arguments.images,
        "documents": arguments.documents,
        "turns": arguments.repeat,
        "tasks": {},
    }
    for task in chosen:
        results["tasks"][task] = _compare(task, tasks[task], worktrees, arguments)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {arguments.out.name}")


def _compare(
    task: str,
    command: tuple[object, ...],
    worktrees: dict[str, Path],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """The runs of a task by both versions, and the ratios of after to before."""
    hashes: dict[str, set[str]] = {name: set() for name in worktrees}
    # A reader grows slowly, and sampling its many pages takes CPU time from it.
    sample_seconds = 0.25 if task == "reading" else 0.05

    def measure(name: str) -> Run:
        subject, *rest = command
        measured = run(
            str(subject),
            *rest,
            python=arguments.python,
            sample_seconds=sample_seconds,
            worktree=worktrees[name],
        )
        manifest = Path(str(rest[1])) / "manifest.json"
        if task != "reading":
            hashes[name].add(json.loads(manifest.read_text())["root_hash"])
        return measured

    subjects = {name: functools.partial(measure, name) for name in worktrees}
    found: dict[str, Any] = take_turns(task, subjects, arguments.repeat, alternating=True)
    before, after = (found[name]["runs"] for name in worktrees)
    ratios = {
        "rate": [b["rate"] / a["rate"] for a, b in zip(before, after, strict=True)],
        "cpu_seconds_per_record": [
            _cpu_per_record(b, task) / _cpu_per_record(a, task)
            for a, b in zip(before, after, strict=True)
        ],
        "peak_mib": [b["peak_mib"] / a["peak_mib"] for a, b in zip(before, after, strict=True)],
    }
    found["after to before"] = {
        name: {
            "median": round(statistics.median(own), 3),
            "least": round(min(own), 3),
            "greatest": round(max(own), 3),
        }
        for name, own in ratios.items()
    }
    if task != "reading":
        found["same_root_hash"] = hashes["before"] == hashes["after"] and len(hashes["after"]) == 1
    for name, own in found["after to before"].items():
        print(f"{task}, after to before, {name}: {own}", flush=True)
    return found


def _cpu_per_record(measured: dict[str, Any], task: str) -> float:
    # The clock of a reader counts its child processes and leaves TensorFlow's start out; that of a
    # job does not count its workers.
    field = "cpu_seconds" if task == "reading" else "process_cpu_seconds"
    return float(measured[field]) / float(measured["records"])


def _check_imports(python: str, worktree: Path) -> None:
    """An installed version must not be measured in place of a worktree.

    Raises:
        SystemExit: A package is imported from another place, or not at all.
    """
    program = f"import {', '.join(_PACKAGES)}\nprint(*({', '.join(_PACKAGES)}), sep='\\n')"
    done = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=worktree,
        env=worktree_environment(worktree),
    )
    lines = done.stdout.splitlines()
    if done.returncode or not all(f"'{worktree}{os.sep}" in line for line in lines):
        raise SystemExit(f"{worktree} is not what is imported:\n{done.stdout}{done.stderr}")


def _commit(worktree: Path) -> dict[str, object]:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(worktree), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    return {
        "commit": git("rev-parse", "--short=10", "HEAD"),
        "subject": git("log", "-1", "--format=%s"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
    }


if __name__ == "__main__":
    main()
