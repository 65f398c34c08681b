"""Clusters of synthetic images, in its own process: prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from beam_jobs.dedup.images.near_duplicates import near_pairs
from beam_jobs.dedup.union_find import components
from benchmarks.measure import peak_rss_mib
from benchmarks.synthetic_looks import PLANTED


def main() -> None:
    """Arguments: FOLDER THREADS. Thumbnails are memory-mapped, as those of a sidecar."""
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
                "images": len(hashes),
                "seconds": round(seconds, 1),
                "processor_seconds": round(busy, 1),
                "peak_rss_mib": peak_rss_mib(),
                "pairs": len(found.pairs),
                "recall": round(float((roots[copies] == roots[copies + behind]).mean()), 4),
                "wrong_pairs": int((found.pairs[:, 1] - found.pairs[:, 0] != behind).sum()),
            }
        )
    )


if __name__ == "__main__":
    main()
