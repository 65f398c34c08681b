"""What a result must say about the machine it is from."""

from __future__ import annotations

import platform
from pathlib import Path

import psutil


def machine() -> dict[str, object]:
    """Cores, memory, processor, system and Python."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "processor": _processor(),
        "platform": platform.system(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), "unknown")
