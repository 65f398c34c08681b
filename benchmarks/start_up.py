"""How long short commands take: `python -m benchmarks.start_up [--before DIR]`.

Four programs take turns, each in a new process: `shardmill --help`; a whole job of 80 images; the
import of TensorFlow alone; `import reader` with the first batch of that small set. With --before,
another git worktree takes part in the same turns. Files are in the page cache after a first turn
that does not count. The median of wall and of CPU time counts (user and system, children included).

Results go to benchmarks/results/start_up.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import make_corpus
from benchmarks.measure import machine, worktree_environment

_HERE = Path(__file__).parent
_IMAGES = 80
_MAIN = "import sys; from cli.main import main; main()"
_FIRST_BATCH = (
    "import sys, reader; next(iter(reader.load(sys.argv[1], batch_size=16, image_size=64).dataset))"
)
# Of a subject: the most seconds it may take, or the most times another subject.
_BOUNDS: dict[str, tuple[float, str]] = {
    "--help": (0.25, ""),
    "a job of 80 images": (2.0, ""),
    "first batch": (1.3, "import tensorflow"),
}


class Taken(NamedTuple):
    """What one process took, in seconds."""

    wall: float
    cpu: float


def main() -> None:
    """Runs everything, prints a table, writes the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.start_up",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", type=Path, metavar="DIR", help="another worktree")
    parser.add_argument("--repeat", type=int, default=9, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "start-up")
    parser.add_argument("--out", type=Path, default=_HERE / "results" / "start_up.json")
    arguments = parser.parse_args()
    photos = make_corpus(arguments.work.resolve() / "corpus", _IMAGES)
    worktrees = {"after": _HERE.parent}
    if arguments.before:
        worktrees = {"before": arguments.before.resolve()} | worktrees
    taken: dict[str, dict[str, list[Taken]]] = {version: {} for version in worktrees}
    for turn in range(-1, arguments.repeat):
        for version, worktree in worktrees.items():
            for name, command in _commands(photos, arguments.work.resolve()).items():
                found = _run(command, worktree)
                if turn >= 0:
                    taken[version].setdefault(name, []).append(found)
    results = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.start_up {shlex.join(sys.argv[1:])}".strip(),
        "machine": machine(),
        "bounds": {name: list(bound) for name, bound in _BOUNDS.items()},
        **{version: _summary(version, runs) for version, runs in taken.items()},
    }
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {arguments.out}")


def _commands(photos: Path, work: Path) -> dict[str, list[str]]:
    """What Python runs, by subject; the job begins anew, and the last subject reads its set."""
    out = work / "set"
    job = ["preprocess", "images", str(photos), "--out", str(out), "--resize", "shorter:128"]
    return {
        "--help": ["-c", _MAIN, "--help"],
        "a job of 80 images": ["-c", _MAIN, *job],
        "import tensorflow": ["-c", "import tensorflow"],
        "first batch": ["-c", _FIRST_BATCH, str(out)],
    }


def _run(command: list[str], worktree: Path) -> Taken:
    if "preprocess" in command:
        shutil.rmtree(command[command.index("--out") + 1], ignore_errors=True)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command],
        env=worktree_environment(worktree) | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        cwd=worktree,
        capture_output=True,
        check=False,
    )
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stderr.decode(errors='replace')[-3000:]}")
    return Taken(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _summary(version: str, runs: dict[str, list[Taken]]) -> dict[str, object]:
    """Medians by subject, and their spread; prints them."""
    print(f"\n{version:<24}{'wall s':>8}{'CPU s':>8}{'least':>8}{'most':>8}")
    found: dict[str, object] = {}
    middle = {name: statistics.median(one.wall for one in own) for name, own in runs.items()}
    for name, own in runs.items():
        walls, cpu = [one.wall for one in own], statistics.median(one.cpu for one in own)
        bound, of = _BOUNDS.get(name, (0.0, ""))
        share = middle[name] / middle[of] if of else middle[name]
        verdict = ""
        if bound:
            verdict = f"{share:.2f}{f' of {of}' if of else ' s'}, bound {bound}"
        print(
            f"{name:<24}{middle[name]:>8.3f}{cpu:>8.3f}{min(walls):>8.3f}{max(walls):>8.3f}"
            f"  {verdict}"
        )
        found[name] = {
            "wall_seconds": round(middle[name], 3),
            "cpu_seconds": round(cpu, 3),
            "runs": [[round(one.wall, 3), round(one.cpu, 3)] for one in own],
        } | ({"compared": round(share, 3)} if bound else {})
    return found


if __name__ == "__main__":
    main()
