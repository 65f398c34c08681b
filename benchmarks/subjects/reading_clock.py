"""The clock of every subject that reads: warm-up, then batches for some seconds.

It needs only Python and Linux's /proc, so that subjects in other environments have the same clock.
A program may read in child processes: their CPU time, memory and reads count too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCH = 64
SIDE = 224
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of the random crops, everywhere
_WARM_UP_BATCHES = 60  # until autotuning has settled and buffers are full
_REFILL_SECONDS = 0.7  # before the clock of a turn begins
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(open_stream: Callable[[], Any], seconds: float, most: int = 0) -> None:
    """Reads for some seconds after the warm-up, and prints what it took as one line of JSON.

    Args:
        open_stream: Opens the data set and returns an iterable of batches; imports are done.
        seconds: How long to read. 0 is for several turns: their lengths come as lines of the input.
        most: Records after which it ends even so, warm-up included: what is read a second time is
            not cold any more. 0 is no limit.

    Raises:
        SystemExit: The batches are not [64, 224, 224, 3] or [64, 3, 224, 224] uint8, or the data
            ended before the clock began.
    """
    opened = time.perf_counter()
    batches = iter(open_stream())
    _check(next(batches))
    first_batch = time.perf_counter() - opened
    for _ in range(_WARM_UP_BATCHES - 1):
        next(batches)
    if not seconds:
        _take_turns(batches)
    most_batches = most // BATCH - _WARM_UP_BATCHES if most else 1 << 62
    batch_count, before, begun = 0, _taken(), time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds and batch_count < most_batches:
        next(batches)
        batch_count += 1
    after = _taken()
    if not batch_count:
        raise SystemExit(f"The set is too small: the warm-up takes all of its {most} records.")
    found = {
        "records": batch_count * BATCH,
        "seconds": passed,
        "cpu_seconds": after["cpu_seconds"] - before["cpu_seconds"],
        "details": {
            "first_batch_seconds": round(first_batch, 3),
            "storage_mb": round((after["storage_bytes"] - before["storage_bytes"]) / 1e6, 1),
            "storage_mb_in_all": round(after["storage_bytes"] / 1e6, 1),
            "major_faults": int(after["major_faults"]),
            "proportional_mib": round(_proportional_bytes() / (1 << 20), 1),
        },
    }
    print(json.dumps(found), flush=True)
    _end()


def _take_turns(batches: Iterator[Any]) -> None:
    """Reads whenever a line of the input says for how long; prints a line of JSON each time."""
    print(json.dumps({"warm": True}), flush=True)
    for line in sys.stdin:
        # What was prefetched before the turn has cost nothing in it.
        begun = time.perf_counter()
        while time.perf_counter() - begun < _REFILL_SECONDS:
            next(batches)
        batch_count, before, begun = 0, _taken(), time.perf_counter()
        while (passed := time.perf_counter() - begun) < float(line):
            next(batches)
            batch_count += 1
        cpu_seconds = _taken()["cpu_seconds"] - before["cpu_seconds"]
        found = {"records": batch_count * BATCH, "seconds": passed, "cpu_seconds": cpu_seconds}
        print(json.dumps(found), flush=True)
    _end()


def _end() -> None:
    """Ends at once: threads and children that read ahead would take seconds, and the next's CPU."""
    for process in [*_processes()][1:]:
        with contextlib.suppress(OSError):
            os.kill(int(process.name), signal.SIGKILL)
    os._exit(0)


def _check(batch: Any) -> None:
    images = batch[0] if isinstance(batch, (tuple, list)) else batch["image"]
    shape, dtype = tuple(images.shape), str(images.dtype)
    if shape not in ((BATCH, SIDE, SIDE, 3), (BATCH, 3, SIDE, SIDE)) or "uint8" not in dtype:
        raise SystemExit(f"A batch is {shape} {dtype}, not {BATCH} uint8 images of {SIDE} pixels.")


def _processes() -> Iterator[Path]:
    """The /proc folders of this process and of all that descend from it."""
    waiting = [os.getpid()]
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        yield process
        with contextlib.suppress(OSError):  # it has ended
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())


def _taken() -> dict[str, float]:
    """Since their start, of all processes: CPU seconds, bytes from storage, major faults."""
    total = {"cpu_seconds": 0.0, "storage_bytes": 0.0, "major_faults": 0.0}
    for process in _processes():
        with contextlib.suppress(OSError):
            # After the name, which ends in ")": field 3 of proc(5) and those that follow.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            total["major_faults"] += int(fields[9])
            total["cpu_seconds"] += (int(fields[11]) + int(fields[12])) / _TICKS
            io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
            total["storage_bytes"] += int(io["read_bytes"])
    return total


def _proportional_bytes() -> int:
    """Memory now, with pages that processes share divided among them (PSS)."""
    total = 0
    for process in _processes():
        with contextlib.suppress(OSError):
            lines = (process / "smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) << 10
    return total
