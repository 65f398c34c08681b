"""What a process has of its machine: cores, and a temporary folder of its user."""

from __future__ import annotations

import os
import tempfile
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


def own_temporary_folder(name: str) -> Path:
    """A folder of this user's for what several processes share, in TMPDIR; made if it is missing.

    Raises:
        PermissionError: Another user has made a folder of that name.
    """
    folder = Path(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(1, "It belongs to another user; remove it or set TMPDIR", str(folder))
    return folder
