"""The baseline: Grain over files of ArrayRecord, shuffled globally, decoded in its threads.

Threads are enough, because the kernels run without Python's lock: worker processes, which Grain
has too, would send every batch to another process.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import cv2
import grain

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.pixels import crop

_AHEAD = 2 * BATCH  # records that are decoded ahead


def _decoded(record: bytes) -> Any:
    return crop(memoryview(record)[8:]), int.from_bytes(record[:8], "little")


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]
    files = [str(path) for path in sorted(Path(directory).glob("*.array_record"))]
    cv2.setNumThreads(1)

    def open_stream() -> Any:
        records = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
        threads = len(os.sched_getaffinity(0))
        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=_AHEAD)
        return (
            records.shuffle(seed=0)
            .repeat()
            .map(_decoded)
            .to_iter_dataset(options)
            .batch(BATCH, drop_remainder=True)
        )

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
