"""How far a reader mixes the records of one source: `LIBRARY FOLDER COUNT`.

A source is a run of records that follow one another in the corpus.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.subjects.clock import BATCH, measure
from benchmarks.subjects.resume import READERS

_SOURCE_RECORDS = 512


def main() -> None:
    """Arguments: LIBRARY FOLDER COUNT."""
    library, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    importlib.import_module(READERS[library][0])
    details: dict[str, Any] = {}

    def read() -> int:
        batches = [np.asarray(b, np.int64) for b in READERS[library][1](folder, None).batches]
        ids = np.concatenate(batches)
        if len(set(ids.tolist())) != len(ids) or len(ids) < count - 64 * BATCH:
            raise SystemExit(f"{library} read {len(ids)} records of {count}")
        sources = ids // _SOURCE_RECORDS
        details.update(_statistics(sources))
        return len(ids)

    measure(read, details)
    sys.stdout.flush()
    os._exit(0)


def _statistics(sources: Any) -> dict[str, float]:
    """The span of a source in the epoch, and the sources of a batch, both of what chance gives."""
    number, total = int(sources.max()) + 1, len(sources)
    places = np.arange(total)
    first, last = np.full(number, total), np.zeros(number, np.int64)
    np.minimum.at(first, sources, places)
    np.maximum.at(last, sources, places)
    counts = np.bincount(sources, minlength=number)
    spans = (last - first)[counts > 1] / total
    batches = sources[: total // BATCH * BATCH].reshape(-1, BATCH)
    distinct = np.mean([len(set(batch.tolist())) for batch in batches])
    generator = np.random.default_rng(0)
    chance = generator.permutation(sources)[: total // BATCH * BATCH].reshape(-1, BATCH)
    by_chance = np.mean([len(set(batch.tolist())) for batch in chance])
    expected = (_SOURCE_RECORDS - 1) / (_SOURCE_RECORDS + 1)
    return {
        "span": round(float(np.mean(spans)) / expected, 4),
        "sources": round(float(distinct / by_chance), 4),
    }


if __name__ == "__main__":
    main()
