"""The limit: decode, crop, flip and resize in threads, from bytes in memory into batch arrays.

Nothing is read, checked, parsed or put in order.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.subjects.clock import BATCH, SIDE, measure_reading
from benchmarks.subjects.pixels import write_crop
from shard_format import decode_example, load_manifest, read_records

_KEPT = 8192  # records in memory: too many for the caches of a processor
_PART, _AHEAD = 16, 2  # records of a task, and batches in progress


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]
    records = (
        decode_example(serialized)
        for shard in load_manifest(directory).splits["train"].shards
        for _, serialized in read_records(Path(directory) / shard.file)
    )
    jpegs = [bytes(one["image"][0]) for one in itertools.islice(records, _KEPT)]  # type: ignore[arg-type]
    cv2.setNumThreads(1)

    def write(target: Any) -> None:
        for own in target:
            write_crop(random.choice(jpegs), own)

    def batches() -> Iterator[Any]:
        waiting: deque[tuple[Any, list[Future[None]]]] = deque()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
            while True:
                images = np.empty((BATCH, SIDE, SIDE, 3), np.uint8)
                parts = (images[begin : begin + _PART] for begin in range(0, BATCH, _PART))
                waiting.append((images, [threads.submit(write, part) for part in parts]))
                if len(waiting) > _AHEAD:
                    images, started = waiting.popleft()
                    for part in started:
                        part.result()
                    yield images, None

    measure_reading(batches, limits)


if __name__ == "__main__":
    main()
