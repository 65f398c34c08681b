"""How many simulated accelerators a loader keeps busy in DLIO, by DLIO's own clock."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.dlio.workloads import MOST_RANKS, WORKLOADS, Workload, command, run
from benchmarks.subjects.clock import report


def main() -> None:
    """Arguments: WORKLOAD LOADER DATA IS_SMALL."""
    name, loader, data, is_small = sys.argv[1:]
    is_small = json.loads(is_small)
    workload = WORKLOADS[name].small if is_small else WORKLOADS[name]
    fed, most = 0, 1 if is_small else MOST_RANKS
    passed, cpu = {}, 0.0
    ranks = most
    while fed < most:  # a binary search, which ends with one rank where none is fed
        begun = _cpu_seconds()
        metric = _metric(workload, loader, Path(data), ranks)
        is_busy = metric["train_au_mean_percentage"] >= 100 * workload.busy
        if is_busy or ranks == 1:  # of one that is not fed, what it gets
            passed, cpu = metric, _cpu_seconds() - begun
        fed, most = (ranks, most) if is_busy else (fed, ranks - 1)
        ranks = (fed + most + 1) // 2
    begun, ranks = _cpu_seconds(), max(1, fed)
    changes = {"train__total_training_steps": 1, "train__epochs": 1}
    _metric(workload, loader, Path(data), ranks, **changes)
    samples = workload.samples_read(loader, ranks)
    # Of all steps but the first, which starts everything, to those of a whole run.
    once = workload.batch * ranks
    cpu = max(1e-3, cpu - (_cpu_seconds() - begun)) * samples / max(1, samples - once)
    rate = passed["train_throughput_mean_samples_per_second"]
    details = {
        "accelerators": fed,
        "busy_percent": round(passed["train_au_mean_percentage"], 1),
        "megabytes_per_second": round(rate * workload.record_bytes / 1e6, 1),
    }
    report(samples, samples / rate, cpu, details)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _metric(
    workload: Workload, loader: str, data: Path, ranks: int, **changes: object
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as results:
        run(command(workload, loader, data, Path(results), ranks, **changes))
        return dict(json.loads((Path(results) / "summary.json").read_text())["metric"])


if __name__ == "__main__":
    main()
