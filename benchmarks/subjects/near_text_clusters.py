"""Clusters of synthetic documents, in a process of its own: prints one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from beam_jobs.dedup.text.near_duplicates import near_duplicates
from beam_jobs.dedup.union_find import components
from beam_jobs.options import TextOptions
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace
from benchmarks.synthetic_shingles import COPIES, UNIT, likeness_of


def main() -> None:
    """Arguments: FOLDER THREADS. As planning does it, on sidecars that are mapped."""
    folder = Path(sys.argv[1])
    out = folder / "out"
    summaries = [UnitSummary(*one) for one in json.loads((folder / "units.json").read_text())]
    options = TextOptions(sources=(str(folder),), out=str(out), workers=int(sys.argv[2]))
    begun, busy = time.perf_counter(), time.process_time()
    sidecars = Sidecars(Workspace(out, None), summaries)
    found = near_duplicates(
        sidecars, np.arange(sidecars.records), options.near_threshold, options.workers
    )
    roots = components(sidecars.records, found.pairs)
    seconds, busy = time.perf_counter() - begun, time.process_time() - busy

    units = np.arange(sidecars.records // UNIT)[:, np.newaxis]
    copies = units * UNIT + COPIES + np.arange(COPIES)
    originals = (units - 1) % len(units) * UNIT + np.arange(COPIES)
    truth = np.array([likeness_of(number)[1] for number in range(COPIES)])
    wanted = np.broadcast_to(truth >= options.near_threshold, copies.shape)
    planted = {
        (min(pair), max(pair))
        for pair in zip(copies[wanted].tolist(), originals[wanted].tolist(), strict=True)
    }
    wrong = sum((one, two) not in planted for one, two in found.pairs.tolist())
    print(
        json.dumps(
            {
                "documents": sidecars.records,
                "seconds": round(seconds, 1),
                "processor_seconds": round(busy, 1),
                "peak_rss_mib": _peak_rss_mib(),
                "pairs": len(found.pairs),
                "recall": round(float((roots[copies] == roots[originals])[wanted].mean()), 5),
                "wrong_pairs": wrong,
            }
        )
    )


def _peak_rss_mib() -> int:
    """The most that was resident, mapped sidecars included.

    As getrusage's ru_maxrss, which however starts with what the parent of this process held.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


if __name__ == "__main__":
    main()
