"""Flink against the local engine on the same cores: `python -m benchmarks.engines [--images 8400]`.

The same job on both in turns, and on both with a dozen images: what that takes is the start-up,
which does not grow with the corpus. The cluster has two TaskManagers, each with a worker pool; it
runs before the clock starts, and idles while the local engine works. Its first job, which loads the
classes of its JVMs, is timed apart from the turns. Needs 'make engines'. Results go to
benchmarks/results/engines.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import make_corpus
from benchmarks.measure import machine
from tests.engines.flink import flink_cluster

_HERE = Path(__file__).parent
_FEW = 12  # images


def main() -> None:
    """Runs the turns, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--images", type=int, default=8400)
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    corpora = {
        "start-up": make_corpus(work / f"corpus-{_FEW}", _FEW),
        "job": make_corpus(work / f"corpus-{arguments.images}", arguments.images),
    }
    scratch = work / "engines"
    shutil.rmtree(scratch, ignore_errors=True)
    turns: list[dict[str, Any]] = []
    with flink_cluster(scratch / "cluster") as cluster:
        engines = {"local": [], "flink": cluster.beam_args}
        first = _build(corpora["start-up"], scratch / "set", cluster.beam_args)["seconds"]
        print(f"first job of the cluster: {first} s", flush=True)
        for number in range(arguments.repeat):
            turn: dict[str, Any] = {}
            for what, corpus in corpora.items():
                for engine, beam_args in engines.items():
                    found = _build(corpus, scratch / "set", beam_args)
                    turn[f"{engine} {what}"] = found
                    print(f"{number + 1}/{arguments.repeat}  {engine} {what}: {found}", flush=True)
            hashes = {turn[f"{engine} job"]["root_hash"] for engine in engines}
            if len(hashes) > 1:
                raise SystemExit(f"The engines differ: {hashes}")
            turns.append(turn)
    results = {"date": datetime.date.today().isoformat(), "machine": machine()}
    results |= {"flink, seconds of the first start-up": first}
    results |= _summary(turns) | {"turns": turns}
    for name, value in results.items():
        if name not in ("machine", "turns"):
            print(f"{name:<42}{value}")
    file = _HERE / "results" / "engines.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _build(corpus: Path, out: Path, beam_args: Sequence[str]) -> dict[str, Any]:
    """Records, seconds as the launcher counts them, and the root hash."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "cli.main", "preprocess", "images", str(corpus)]
    options = [
        "--resize",
        "shorter:256",
        "--dedup",
        "off",
        "--no-report",
        "--json",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        [*command, *options, "--", *beam_args], cwd=_HERE.parent, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    summary = json.loads(done.stdout.splitlines()[-1])
    seconds = json.loads((out / "build.json").read_text())["seconds"]
    return {"records": summary["read"], "seconds": seconds, "root_hash": summary["root_hash"]}


def _summary(turns: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Medians over the turns; ratios are made within a turn."""

    def rate(turn: dict[str, Any], engine: str, *, without_start: bool) -> float:
        job, start = turn[f"{engine} job"], turn[f"{engine} start-up"]
        if not without_start:
            return float(job["records"] / job["seconds"])
        return float((job["records"] - start["records"]) / (job["seconds"] - start["seconds"]))

    found: dict[str, float] = {}
    for engine in ("local", "flink"):
        starts = [turn[f"{engine} start-up"]["seconds"] for turn in turns]
        found[f"{engine}, seconds of start-up"] = round(statistics.median(starts), 2)
        for without, title in ((False, "records/s"), (True, "records/s after the start-up")):
            rates = [rate(turn, engine, without_start=without) for turn in turns]
            found[f"{engine}, {title}"] = round(statistics.median(rates), 1)
    for without, title in ((False, "ratio"), (True, "ratio after the start-up")):
        ratios = [
            rate(turn, "flink", without_start=without) / rate(turn, "local", without_start=without)
            for turn in turns
        ]
        found[title] = round(statistics.median(ratios), 3)
    return found


if __name__ == "__main__":
    main()
