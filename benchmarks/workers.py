"""Scaling of multi_worker: `python -m benchmarks.workers [--repeat 3]`.

One process on one core, one process on as many cores as there are workers, and that many workers
with a core each train small_cnn on the sample images, in turns, with the same examples a step for
each core. The rate is the median over the epochs after the first, which also traces the graph.
Results go to benchmarks/results/workers.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import machine
from tests.engines.processes import free_port

_HERE = Path(__file__).parent
_BATCH = 32  # examples a step, for each core


def main() -> None:
    """Runs the turns, prints rates and their ratios, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--workers", type=int, default=2, help="processes, each with a core")
    parser.add_argument("--epochs", type=int, default=6, help="of a run")
    parser.add_argument("--work", type=Path, default=_HERE / ".work" / "workers", help="scratch")
    arguments = parser.parse_args()
    work, count = arguments.work.resolve(), arguments.workers
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    samples = _HERE.parent / "samples" / "clothing"
    options = ["images", samples, "--resize", "shorter:128", "--split", "train=1"]
    _wait([_shardmill(work, ["preprocess", *options, "--out", "set"], set(range(count)))])
    cases = {
        "one process, one core": [{0}],
        f"one process, {count} cores": [set(range(count))],
        f"{count} workers, one core each": [{core} for core in range(count)],
    }
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(arguments.repeat):
        for number, (name, processes) in enumerate(cases.items()):
            cores = sum(map(len, processes))
            run_dir = work / f"{turn}-{number}"
            rates[name].append(_rate(work, processes, _BATCH * cores, arguments.epochs, run_dir))
            print(f"{turn + 1}/{arguments.repeat}  {name}: {rates[name][-1]:,.0f}/s", flush=True)
    medians = {name: round(statistics.median(own), 1) for name, own in rates.items()}
    one, threads, workers = rates.values()
    ratios = {
        "workers to threads": _ratio(workers, threads),
        "workers to one core, a core": _ratio(workers, [count * rate for rate in one]),
    }
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "command": f"python -m benchmarks.workers --repeat {arguments.repeat}",
        "examples_per_second": medians,
        "ratios": ratios,
        "turns": rates,
    }
    for name, value in {**medians, **ratios}.items():
        print(f"{name:<32}{value:>10}")
    file = _HERE / "results" / "workers.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _ratio(own: list[float], others: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(own, others, strict=True)), 3)


def _rate(work: Path, processes: list[set[int]], batch: int, epochs: int, run_dir: Path) -> float:
    """Examples per second of a training by processes with these cores."""
    options: list[object] = ["train", "set", "--run-dir", run_dir, "--batch-size", batch]
    options += ["--epochs", epochs, "--model", "small_cnn", "--precision", "float32"]
    addresses = [f"localhost:{free_port()}" for _ in processes]
    started = []
    for index, cores in enumerate(processes):
        several: list[object] = []
        environment = {}
        if len(processes) > 1:
            several = ["--strategy", "multi_worker"]
            task = {"type": "worker", "index": index}
            cluster = {"cluster": {"worker": addresses}, "task": task}
            environment = {"TF_CONFIG": json.dumps(cluster)}
        started.append(_shardmill(work, [*options, *several], cores, environment))
    _wait(started)
    history = json.loads((run_dir / "history.json").read_text())
    return statistics.median(epoch["examples_per_second"] for epoch in history[1:])


def _shardmill(
    work: Path,
    arguments: list[object],
    cores: set[int],
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    log = (work / f"{time.monotonic_ns()}.log").open("wb")
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", *map(str, arguments)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(_HERE.parent), **(environment or {})},
        stdout=log,
        stderr=log,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"exit codes {codes}; see the logs in {_HERE / '.work'}")


if __name__ == "__main__":
    main()
