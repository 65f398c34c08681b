"""Readers that take short turns: each is a process that stays open, and is stopped between turns.

The speed of a machine changes by the minute, so turns of seconds are compared with those next to
them. A subject reads from its input when to begin; nothing of it runs while others have their turn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """What a subject did in one turn.

    Attributes:
        rate: Records per second.
        cpu_microseconds: Of all its processes, for a record.
    """

    rate: float
    cpu_microseconds: float


@dataclasses.dataclass
class Reader:
    """A subject that is open; see `benchmarks.subjects.reading_clock`."""

    process: subprocess.Popen[str]

    def turn(self, seconds: float) -> Turn:
        """Lets it read for some seconds."""
        assert self.process.stdin is not None
        os.killpg(self.process.pid, signal.SIGCONT)
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        found = self._line()
        os.killpg(self.process.pid, signal.SIGSTOP)
        return Turn(
            found["records"] / found["seconds"], found["cpu_seconds"] / found["records"] * 1e6
        )

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                return dict(json.loads(line))
        raise SystemExit(f"{self.process.args} ended")


@contextlib.contextmanager
def opened(command: Sequence[object], python: str = sys.executable) -> Iterator[Reader]:
    """Within this context, a subject is open, and stopped but for its turns.

    Args:
        command: A module of benchmarks/subjects, and its arguments.
        python: The interpreter.
    """
    module, *arguments = map(str, command)
    process = subprocess.Popen(
        [python, "-m", f"benchmarks.subjects.{module}", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        start_new_session=True,  # its children are stopped with it
    )
    try:
        reader = Reader(process)
        reader._line()  # it is warm
        os.killpg(process.pid, signal.SIGSTOP)
        yield reader
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def take_turns(readers: dict[str, Reader], turns: int, seconds: float) -> dict[str, Any]:
    """Rates and CPU time of all readers, and ratios to the first one within a turn.

    Every second turn goes backwards, so that no subject always follows the same other one.
    """
    taken: dict[str, list[Turn]] = {name: [] for name in readers}
    for number in range(turns):
        for name in list(readers)[:: -1 if number % 2 else 1]:
            taken[name].append(readers[name].turn(seconds))
    first = next(iter(taken.values()))
    found = {}
    print(f"{'':<28}{'records/s':>10}{'ratio':>8}{'middle half':>14}{'CPU us':>8}{'ratio':>8}")
    for name, own in taken.items():
        rates = [one.rate / other.rate for one, other in zip(own, first, strict=True)]
        cpu = [
            other.cpu_microseconds / one.cpu_microseconds
            for one, other in zip(own, first, strict=True)
        ]
        low, middle, high = statistics.quantiles(rates, n=4)
        found[name] = {
            "records_per_second": round(statistics.median(one.rate for one in own), 1),
            "cpu_microseconds": round(statistics.median(one.cpu_microseconds for one in own), 1),
            "ratio": round(middle, 3),
            "ratio_quartiles": [round(low, 3), round(high, 3)],
            "ratio_by_cpu": round(statistics.median(cpu), 3),
            "turns": [[round(one.rate, 1), round(one.cpu_microseconds, 1)] for one in own],
        }
        one = found[name]
        print(
            f"{name:<28}{one['records_per_second']:>10,.0f}{middle:>8.3f}{low:>8.3f}-{high:.3f}"
            f"{one['cpu_microseconds']:>8,.0f}{one['ratio_by_cpu']:>8.3f}"
        )
    return found
