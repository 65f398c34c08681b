"""A clock for work that keeps cores busy, on a machine where other programs do so too."""

from __future__ import annotations

import dataclasses
import time

import psutil

# With this share of the machine's cores idle, no program waited for one.
_IDLE = 0.05


@dataclasses.dataclass(frozen=True)
class Elapsed:
    """Times from a clock.

    Attributes:
        seconds: Wall time.
        cpu_seconds: CPU time of this process, over all threads.
        others_cores: How many cores other programs kept busy, if no core was idle; else 0.
    """

    seconds: float
    cpu_seconds: float
    others_cores: float

    @property
    def alone_seconds(self) -> float:
        """The wall time without other programs: they slowed this process by their share of cores.

        It is at least the CPU time, spread over all cores.
        """
        cores = psutil.cpu_count() or 1
        left = max(0.0, cores - self.others_cores) / cores
        return max(self.seconds * left, self.cpu_seconds / cores)


class Clock:
    """Starts when it is created."""

    def __init__(self) -> None:
        self._wall, self._cpu, self._machine = _now()

    def elapsed(self) -> Elapsed:
        """The times since the start."""
        wall, cpu, (busy, idle) = _now()
        seconds, cpu = wall - self._wall, cpu - self._cpu
        busy, idle = busy - self._machine[0], idle - self._machine[1]
        crowded = idle < _IDLE * (busy + idle)
        return Elapsed(seconds, cpu, max(0.0, busy - cpu) / seconds if crowded else 0.0)


def _now() -> tuple[float, float, tuple[float, float]]:
    """(wall, CPU time of this process, (busy, idle) of all cores of the machine), in seconds."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Guests are counted in user and nice already; what a hypervisor steals is busy too.
    busy = sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return time.perf_counter(), time.process_time(), (busy, idle)
