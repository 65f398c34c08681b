"""The baseline: WebDataset with a worker process for every core.

The chain of its documentation: shards shuffled, a shuffle buffer in every worker, decoded and
batched there, because single records are slow to pass between processes. The buffer holds bytes and
not images, as that is faster.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import webdataset as wds

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.torch_pixels import PIXELS, start_worker

_BUFFER = 4096  # in all, as tf.data's


def main() -> None:
    """Arguments: DIR PIXELS LIMITS; PIXELS is pil or tuned."""
    directory, pixels, *limits = sys.argv[1:]
    workers = len(os.sched_getaffinity(0))
    shards = [str(path) for path in sorted(Path(directory).glob("*.tar"))]
    if len(shards) < workers:
        raise SystemExit(f"{workers} workers need as many shards, got {len(shards)}")

    def open_stream() -> Any:
        dataset = (
            wds.WebDataset(shards, shardshuffle=len(shards))
            .shuffle(_BUFFER // workers, initial=_BUFFER // workers)
            .to_tuple("jpg", "cls")
            .map_tuple(PIXELS[pixels], int)
            .batched(BATCH, partial=False)
            .repeat()
        )
        return wds.WebLoader(
            dataset, batch_size=None, num_workers=workers, worker_init_fn=start_worker
        )

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
