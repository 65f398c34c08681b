"""Clusters of synthetic images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from beam_jobs.dedup.clusters import components
from beam_jobs.dedup.images.near_duplicates import DEFAULT_THRESHOLD, near_duplicates
from benchmarks.subjects.clock import measure
from benchmarks.synthetic_looks import PLANTED
from benchmarks.table_sidecars import sidecars_of_looks


def main() -> None:
    """Arguments: FOLDER THREADS. Thumbnails are memory-mapped, as those of a sidecar."""
    folder = Path(sys.argv[1])
    details: dict[str, Any] = {}

    def cluster() -> int:
        sidecars = sidecars_of_looks(
            np.load(folder / "hashes.npy", mmap_mode="r"),
            np.load(folder / "thumbnails.npy", mmap_mode="r"),
            folder,
        )
        pairs = near_duplicates(sidecars, DEFAULT_THRESHOLD, int(sys.argv[2])).pairs
        roots = components(sidecars.records, pairs)
        copies = np.arange(sidecars.records // PLANTED)
        behind = sidecars.records - len(copies)
        details["recall"] = round(float((roots[copies] == roots[copies + behind]).mean()), 4)
        details["wrong_pairs"] = int((pairs[:, 1] - pairs[:, 0] != behind).sum())
        return sidecars.records

    measure(cluster, details)


if __name__ == "__main__":
    main()
