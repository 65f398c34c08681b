"""Is the doctor right? `python -m benchmarks.doctor [--seconds 5] [--repeat 3] [--only NAME]`.

`shardmill doctor` diagnoses ten training jobs with one fault each (cases.py). Its first advice is
then applied, and the rate of the training measured again: it must have named the bottleneck, and
the rate must be the predicted one. Results go to benchmarks/results/doctor.json.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.doctor.cases import CASES, Case
from benchmarks.doctor.sets import build
from benchmarks.doctor.slow_storage import available, limited
from benchmarks.measure import machine

_HERE = Path(__file__).parents[1]


def main() -> None:
    """Runs the cases, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doctor", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", metavar="NAME", action="append", help="a case; repeatable")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "doctor", help="scratch")
    parser.add_argument("--repeat", type=int, default=3, help="trainings after; the median counts")
    arguments = parser.parse_args()
    file = _HERE / "results" / "doctor.json"
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results |= {"machine": machine(), "date": datetime.date.today().isoformat()}
    for case in CASES:
        if arguments.only and case.name not in arguments.only:
            continue
        found = _examine(case, arguments.work, arguments.seconds, arguments.repeat)
        results[case.name] = found
        print(_line(case, found), flush=True)
        # Relative paths in commands: the rest is specific to this machine.
        file.write_text(json.dumps(results, indent=1).replace(f"{_HERE.parent}/", "") + "\n")


def _examine(case: Case, work: Path, seconds: float, repeat: int) -> dict[str, Any]:
    """The diagnosis of a case, and the result of its first advice."""
    if case.megabytes_per_second and not available():
        return {"seeded": case.seeded, "skipped": "needs root and control groups of Linux"}
    data = build(case.source, case.preprocess, work)
    before = ["-m", "cli.main", "doctor", data, *shlex.split(case.train)]
    with _conditions(case, data) as prefix:
        said = _run([*prefix, sys.executable, *before, "--seconds", seconds, "--json"])
    found: dict[str, Any] = {
        "seeded": case.seeded,
        "train": case.train,
        "expected": {"stage": case.stage, "remedies": case.remedies},
        "named": said["bottleneck"],
        "examples_per_second": said["examples_per_second"],
        "advice": said["advice"],
        "right": _right(case, said),
        "doctor": {key: said[key] for key in ("stages", "limits", "step", "storage", "training")},
    }
    if case.remedies and said["advice"]:
        advice = said["advice"][0]
        runs = [_apply(case, advice, data, work, seconds) for _ in range(repeat)]
        times = sorted(runs, key=_rate)[repeat // 2]
        after = _rate(times)
        found |= {
            "promised": advice["examples_per_second"],
            "reached": after,
            "promised_gain": advice["gain"],
            "gain": after / said["examples_per_second"],
            "error": advice["examples_per_second"] / after - 1,
            # Rates depend on other programs on the machine; CPU seconds do not.
            "promised_cpu_seconds": advice["cpu_seconds"],
            "reached_cpu_seconds": times["cpu_seconds"],
            "training_after": times,
            "reached_in_each": [round(_rate(each), 1) for each in runs],
        }
    return found


def _rate(times: dict[str, Any]) -> float:
    return float(times["examples"] / times["seconds"])


def _right(case: Case, said: dict[str, Any]) -> bool:
    """Whether the stage was named, and the first advice removes the fault."""
    if said["bottleneck"]["stage"] != case.stage:
        return False
    advised = [each["remedy"] for each in said["advice"]]
    if not case.remedies:  # faster steps may be advised, but nothing on the input
        return all(each["stage"] == "step" for each in said["advice"])
    return bool(advised) and advised[0] in case.remedies


def _apply(
    case: Case, advice: dict[str, Any], data: Path, work: Path, seconds: float
) -> dict[str, Any]:
    """The times of the training with the advice applied."""
    first, *rest = advice["command"].splitlines()
    if rest:  # another set must be built first
        given = shlex.split(first.split("--out ")[1])[1:]
        data = build(case.source, shlex.join(given), work)
    options = dict(zip(*[iter(shlex.split(case.train))] * 2, strict=True)) | advice["options"]
    flags = [part for pair in options.items() for part in pair]
    pinned = advice["remedy"] != "all-cores"
    with _conditions(case, data, pinned) as prefix:
        return _run(
            [*prefix, sys.executable, "-m", "benchmarks.doctor.rate", data, seconds, *flags]
        )


@contextlib.contextmanager
def _conditions(case: Case, data: Path, pinned: bool = True) -> Iterator[list[str]]:
    """The prefix of a command that causes a fault of its environment."""
    if case.megabytes_per_second:
        with limited(data, case.megabytes_per_second * 10**6) as group:
            # The shell joins the group, and then becomes the command.
            yield ["sh", "-c", f'echo $$ > {group}; exec "$@"', "sh"]
    elif case.cores and pinned:
        yield ["taskset", "--cpu-list", case.cores]
    else:
        yield []


def _run(command: list[Any]) -> dict[str, Any]:
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(_HERE.parent)},
    )
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, command))} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _line(case: Case, found: dict[str, Any]) -> str:
    if "skipped" in found:
        return f"{case.name:20} skipped: {found['skipped']}"
    first = found["advice"][0]["remedy"] if found["advice"] else "nothing"
    line = (
        f"{case.name:20} {'right' if found['right'] else 'WRONG'}: "
        f"{found['named']['stage']} -> {first}; {found['examples_per_second']:,.0f}/s"
    )
    if "reached" not in found:
        return line
    return (
        f"{line}, promised {found['promised']:,.0f}, reached {found['reached']:,.0f} "
        f"({found['error']:+.0%}; CPU time "
        f"{found['promised_cpu_seconds'] / found['reached_cpu_seconds'] - 1:+.0%})"
    )


if __name__ == "__main__":
    main()
