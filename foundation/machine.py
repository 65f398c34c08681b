"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_QUOTA_FILES = (  # of control groups, version 2: "quota period" or "max period", in microseconds
    Path("/sys/fs/cgroup/cpu.max"),
)


def machine_cores() -> int:
    """Cores of the machine."""
    return os.cpu_count() or 1


def usable_cores() -> float:
    """Cores that this process may use: taskset or a container's quota may allow fewer; above 0."""
    allowed = float(machine_cores())
    if hasattr(os, "sched_getaffinity"):  # Linux only
        allowed = min(allowed, len(os.sched_getaffinity(0)))
    for file in _QUOTA_FILES:
        try:
            quota, period = file.read_text().split()
            allowed = min(allowed, int(quota) / int(period))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return allowed
