"""The folder that a build writes into."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

KEEP = "BENCHMARK_KEEPS_OUTPUT"


def prepare(out: Path) -> None:
    """Removes what an earlier run left; with the variable `KEEP`, the build finds it there."""
    if KEEP not in os.environ:
        shutil.rmtree(out, ignore_errors=True)
