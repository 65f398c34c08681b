"""The limit: read, decode, resize, encode in a process pool; nothing is checked or stored."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

from benchmarks.subjects.clock import measure
from benchmarks.subjects.photo_kernels import encoded, resized

_FILES_PER_TASK = 64  # small enough that both processes end together


def prepare(path: str) -> int:
    """Everything but storing it."""
    return len(encoded(resized(path)))


def main() -> None:
    """Arguments: SOURCE."""
    files = [str(path) for path in sorted(Path(sys.argv[1]).rglob("*.jpg"))]
    workers = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(workers) as pool:
        measure(
            lambda: sum(1 for _ in pool.imap_unordered(prepare, files, chunksize=_FILES_PER_TASK))
        )


if __name__ == "__main__":
    main()
