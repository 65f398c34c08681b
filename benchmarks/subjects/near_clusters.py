"""Clusters of synthetic images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.images.near_duplicates import near_pairs
from benchmarks.subjects.clock import measure
from benchmarks.synthetic_looks import PLANTED


def main() -> None:
    """Arguments: FOLDER THREADS. Thumbnails are memory-mapped, as those of a sidecar."""
    folder = Path(sys.argv[1])
    details: dict[str, Any] = {}

    def cluster() -> int:
        hashes = np.load(folder / "hashes.npy")
        thumbnails = np.load(folder / "thumbnails.npy", mmap_mode="r")
        pairs = near_pairs(hashes, lambda rows: thumbnails[rows], threads=int(sys.argv[2])).pairs
        roots = components(len(hashes), pairs)
        copies = np.arange(len(hashes) // PLANTED)
        behind = len(hashes) - len(copies)
        details["recall"] = round(float((roots[copies] == roots[copies + behind]).mean()), 4)
        details["wrong_pairs"] = int((pairs[:, 1] - pairs[:, 0] != behind).sum())
        return len(hashes)

    measure(cluster, details)


if __name__ == "__main__":
    main()
