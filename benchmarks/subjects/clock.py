"""The clock of every subject: records, seconds and CPU time, printed as one line of JSON.

It needs only Python and Linux's /proc, so that subjects in other environments have the same clock.
A program may work in child processes: their CPU time and their reads count too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

BATCH = 64
SIDE = 224
AREA, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of the random crops, everywhere
_WARM_UP_BATCHES = 60  # until autotuning has settled and buffers are full
_TICKS = os.sysconf("SC_CLK_TCK")


def measure(work: Callable[[], int], details: dict[str, Any] | None = None) -> None:
    """Does some work that returns its number of records, and prints what it took.

    `details`, which the work may fill, are printed with it, and the time since the process began.
    """
    cpu, begun = _taken()[0], time.perf_counter()
    records = work()
    seconds = time.perf_counter() - begun
    taken = _taken()[0]
    whole = {"whole_seconds": round(_since_start(), 3), "whole_cpu_seconds": round(taken, 3)}
    report(records, seconds, taken - cpu, whole | (details or {}))


def check_images(batch: Any) -> None:
    """Checks that a batch has [64, 224, 224, 3] or [64, 3, 224, 224] uint8 images.

    Raises:
        SystemExit: It has others.
    """
    images = batch[0] if isinstance(batch, (tuple, list)) else batch["image"]
    shape, dtype = tuple(images.shape), str(images.dtype)
    if shape not in ((BATCH, SIDE, SIDE, 3), (BATCH, 3, SIDE, SIDE)) or "uint8" not in dtype:
        raise SystemExit(f"A batch is {shape} {dtype}, not {BATCH} uint8 images of {SIDE} pixels.")


def measure_reading(
    open_stream: Callable[[], Any],
    limits: Sequence[str],
    check: Callable[[Any], None] = check_images,
) -> None:
    """Reads for some seconds after the warm-up, prints what it took, and ends the process.

    Args:
        open_stream: Opens the data set and returns an iterable of batches; imports are done.
        limits: SECONDS [MOST | tfds] of the command line: the time to read, and the records after
            which it ends even so, warm-up included: what is read a second time is not cold any
            more. With "tfds" as many batches are read again by the clock of TFDS.
        check: Checks the first batch, of 64 records.

    Raises:
        SystemExit: The data ended before the clock began.
    """
    seconds, rest = float(limits[0]), limits[1] if len(limits) > 1 else "0"
    most = int(rest) if rest.isdecimal() else 0
    opened = time.perf_counter()
    batches = iter(open_stream())
    check(next(batches))
    first_batch, since_start = time.perf_counter() - opened, _since_start()
    most_batches = most // BATCH if most else 1 << 62
    warm_up = min(_WARM_UP_BATCHES, max(1, most_batches // 2))
    for _ in range(warm_up - 1):
        next(batches)
    count, before, begun = 0, _taken(), time.perf_counter()
    while (passed := time.perf_counter() - begun) < seconds and warm_up + count < most_batches:
        next(batches)
        count += 1
    after = _taken()
    if not count:
        raise SystemExit(f"The set is too small: the warm-up takes all of its {most} records.")
    details = {
        "first_batch_seconds": round(first_batch, 3),
        "start_seconds": round(since_start, 3),
        "storage_mb": round((after[1] - before[1]) / 1e6, 1),
    }
    if rest == "tfds":
        from benchmarks.subjects.tfds_clock import tfds_rate

        details["tfds_rate"] = tfds_rate(batches, count)
    report(count * BATCH, passed, after[0] - before[0], details)
    _end()


def measure_epoch(open_stream: Callable[[], Any]) -> None:
    """Reads one epoch from its opening on, prints what it took, and ends the process.

    Args:
        open_stream: Opens the data set and returns an iterable of batches; imports are done.
    """
    cpu, opened, count, first_batch = _taken()[0], time.perf_counter(), 0, 0.0
    for count, batch in enumerate(open_stream(), 1):
        if count == 1:
            check_images(batch)
            first_batch = time.perf_counter() - opened
    seconds = time.perf_counter() - opened
    details = {"first_batch_seconds": round(first_batch, 3)}
    report(count * BATCH, seconds, _taken()[0] - cpu, details)
    _end()


def _end() -> NoReturn:
    """Ends the process: threads and children that read ahead would take seconds, and CPU time."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # PyTorch's handler would raise of lost workers
    for process in [*_processes()][1:]:
        with contextlib.suppress(OSError):
            os.kill(int(process.name), signal.SIGKILL)
    os._exit(0)


def report(records: int, seconds: float, cpu_seconds: float, details: dict[str, Any]) -> None:
    """Prints what a subject took."""
    measured = {"records": records, "seconds": seconds, "cpu_seconds": cpu_seconds}
    print(json.dumps(measured | {"details": details}), flush=True)


def _processes() -> Iterator[Path]:
    """The /proc folders of this process and of all that descend from it."""
    waiting = [os.getpid()]
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        yield process
        with contextlib.suppress(OSError):  # it has ended
            for task in (process / "task").iterdir():
                waiting += map(int, (task / "children").read_text().split())


def _since_start() -> float:
    """Seconds since this process was started, imports included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / _TICKS


def _taken() -> tuple[float, int]:
    """CPU seconds of all processes, those that ended included, and bytes read from storage."""
    cpu_seconds, storage_bytes = 0.0, 0
    for process in _processes():
        with contextlib.suppress(OSError):
            # After the name, which ends in ")": fields 14 to 17 of proc(5).
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            cpu_seconds += sum(map(int, fields[11:15])) / _TICKS
            io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
            storage_bytes += int(io["read_bytes"])
    return cpu_seconds, storage_bytes
