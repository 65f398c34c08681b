"""Subjects take turns, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable

from benchmarks.measure import Run

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
    print(f"\n{title:<32}{'records/s':>10}{'ratio':>8}{'process s':>11}{'peak MiB':>10}{'x':>6}")
    for name, own in runs.items():
        ratio = statistics.median(a.rate / b.rate for a, b in zip(own, first, strict=True))
        memory = statistics.median(a.peak_mib / b.peak_mib for a, b in zip(own, first, strict=True))
        rate = statistics.median(one.rate for one in own)
        wall = statistics.median(one.wall_seconds for one in own)
        peak = statistics.median(one.peak_mib for one in own)
        print(f"{name:<32}{rate:>10,.0f}{ratio:>8.2f}{wall:>11.1f}{peak:>10,.0f}{memory:>6.2f}")
        found[name] = {
            "records_per_second": round(rate, 1),
            "ratio": round(ratio, 3),
            "process_seconds": round(wall, 2),
            "peak_mib": round(peak, 1),
            "memory_ratio": round(memory, 3),
            "runs": [dataclasses.asdict(one) for one in own],
        }
    print(flush=True)
    return found
