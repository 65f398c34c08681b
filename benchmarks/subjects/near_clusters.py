"""Clusters of synthetic pictures, in a process of its own: prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from beam_jobs.dedup.images.near_duplicates import near_pairs
from beam_jobs.dedup.union_find import components
from benchmarks.synthetic_looks import PLANTED


def main() -> None:
    """Arguments: FOLDER THREADS. Thumbnails are mapped, as those of a sidecar are."""
    folder = Path(sys.argv[1])
    begun, busy = time.perf_counter(), time.process_time()
    hashes = np.load(folder / "hashes.npy")
    thumbnails = np.load(folder / "thumbnails.npy", mmap_mode="r")
    found = near_pairs(hashes, lambda rows: thumbnails[rows], threads=int(sys.argv[2]))
    roots = components(len(hashes), found.pairs)
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy
    copies = np.arange(len(hashes) // PLANTED)
    behind = len(hashes) - len(copies)
    print(
        json.dumps(
            {
                "pictures": len(hashes),
                "seconds": round(seconds, 1),
                "processor_seconds": round(busy, 1),
                "peak_rss_mib": _peak_rss_mib(),
                "pairs": len(found.pairs),
                "recall": round(float((roots[copies] == roots[copies + behind]).mean()), 4),
                "wrong_pairs": int((found.pairs[:, 1] - found.pairs[:, 0] != behind).sum()),
            }
        )
    )


def _peak_rss_mib() -> int:
    """The most that was resident, mapped thumbnails included.

    As getrusage's ru_maxrss, which however starts with what the parent of this process held.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


if __name__ == "__main__":
    main()
