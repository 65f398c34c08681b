"""The baseline: a pipeline of SPDL over files, decoded in as many threads as there are cores."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from spdl.pipeline import PipelineBuilder

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.pixels import crop

_AHEAD = 2  # batches that wait for the caller


def _decoded(path: str) -> Any:
    with open(path, "rb", buffering=0) as file:
        return crop(file.readall())


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]
    files = [(str(path), int(path.parent.name)) for path in sorted(Path(directory).rglob("*.jpg"))]
    threads = len(os.sched_getaffinity(0))
    cv2.setNumThreads(1)

    def endless() -> Iterator[tuple[str, int]]:
        while True:
            yield from random.sample(files, len(files))

    def open_stream() -> Iterator[Any]:
        pipeline = (
            PipelineBuilder()
            .add_source(endless())
            .pipe(lambda file: (_decoded(file[0]), file[1]), concurrency=threads)
            .aggregate(BATCH, drop_last=True)
            .pipe(lambda batch: tuple(np.stack(values) for values in zip(*batch, strict=True)))
            .add_sink(_AHEAD)
            .build(num_threads=threads)
        )
        with pipeline.auto_stop():
            yield from pipeline

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
