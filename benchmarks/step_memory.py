"""Memory of a step of a language model: `python -m benchmarks.step_memory --before DIR`.

DIR is a git worktree of an earlier version; the subject, which is newer, is copied there. Both
train the causal Transformer on the CPU with 8 sequences of 512 tokens, for several vocabularies, in
turns. Counted is what a process holds at most during its steps, and their CPU time.
Results go to benchmarks/results/step_memory.json.

    git worktree add ../before COMMIT
    python -m benchmarks.step_memory --before ../before
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.measure import Run, machine, run

_HERE = Path(__file__).parent
_SUBJECT = Path("benchmarks") / "subjects" / "train_step.py"
_BATCH, _LENGTH, _STEPS = 8, 512, 4
_CASES = ((8_000, "float32"), (32_000, "float32"), (64_000, "float32"))


def main() -> None:
    """Measures both versions in turns, prints a table, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.step_memory",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", type=Path, metavar="DIR", required=True, help="a worktree")
    parser.add_argument("--repeat", type=int, default=2, help="turns; the median counts")
    arguments = parser.parse_args()
    here = _HERE.parent
    worktrees = {"before": arguments.before.resolve(), "after": here}
    shutil.copy(here / _SUBJECT, worktrees["before"] / _SUBJECT)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "before": _commit(worktrees["before"]),
        "batch": _BATCH,
        "length": _LENGTH,
        "cases": {},
    }
    print(f"{'':<28}{'weights MiB':>12}{'step MiB':>10}{'peak MiB':>10}{'CPU s a step':>14}")
    for vocabulary, precision in _CASES:
        runs: dict[str, list[Run]] = {name: [] for name in worktrees}
        for _ in range(arguments.repeat):
            for name, worktree in worktrees.items():
                options = (_BATCH, _LENGTH, vocabulary, precision, _STEPS)
                runs[name].append(run("train_step", *options, worktree=worktree))
        title = f"{vocabulary:,} {precision}"
        results["cases"][title] = {name: _medians(own) for name, own in runs.items()}
        for name, found in results["cases"][title].items():
            print(
                f"{title + ', ' + name:<28}{found['weights_mib']:>12,}{found['step_mib']:>10,}"
                f"{found['peak_mib']:>10,}{found['cpu_seconds_per_step']:>14}",
                flush=True,
            )
        file = _HERE / "results" / "step_memory.json"
        file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(here)}")


def _medians(runs: list[Run]) -> dict[str, float]:
    details = [one.details for one in runs]
    found = {key: round(statistics.median(one[key] for one in details), 3) for key in details[0]}
    grown = statistics.median(one["peak_mib"] - one["before_mib"] for one in details)
    return {**found, "step_mib": round(grown, 1)}


def _commit(worktree: Path) -> str:
    command = ["git", "-C", str(worktree), "log", "-1", "--format=%h %s"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
