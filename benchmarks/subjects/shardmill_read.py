"""shardmill's reader: computed global order, stateless augmentation."""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.measure import print_result

BATCH = 64
SIDE = 224
_WARM_UP_BATCHES = 60  # until autotuning has settled and buffers are full


def measure(dataset: Any, seconds: float) -> None:
    """Reads for some seconds after the warm-up, and prints the result."""
    batches = iter(dataset)
    for _ in range(_WARM_UP_BATCHES):
        next(batches)
    records, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        next(batches)
        records += BATCH
    print_result(records, time.perf_counter() - begun)


def main() -> None:
    """Arguments: DIR CACHE SECONDS."""
    directory, cache, seconds = sys.argv[1:]
    import reader

    stream = reader.load(
        directory, batch_size=BATCH, image_size=SIDE, augment="standard", cache=cache
    )
    measure(stream.dataset, float(seconds))


if __name__ == "__main__":
    main()
