"""Clusters of synthetic documents, in its own process: prints one line of JSON."""

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
from benchmarks.measure import peak_rss_mib
from benchmarks.synthetic_shingles import COPIES, UNIT, likeness_of


def main() -> None:
    """Arguments: FOLDER THREADS. As planning does it, on memory-mapped sidecars."""
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
                "peak_rss_mib": peak_rss_mib(),
                "pairs": len(found.pairs),
                "recall": round(float((roots[copies] == roots[originals])[wanted].mean()), 5),
                "wrong_pairs": wrong,
            }
        )
    )


if __name__ == "__main__":
    main()
