"""The baseline: LitData's StreamingDataset, with a worker process for each core."""

from __future__ import annotations

import os
import sys
from typing import Any

import cv2
import torch
from litdata import StreamingDataLoader, StreamingDataset

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.pixels import crop


class _Cropped(StreamingDataset):
    def __getitem__(self, number: Any) -> tuple[Any, int]:
        cv2.setNumThreads(1)
        record = super().__getitem__(number)
        return torch.from_numpy(crop(record["jpeg"])), record["label"]


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]

    def open_stream() -> Any:
        dataset = _Cropped(directory, shuffle=True, drop_last=True)
        workers = len(os.sched_getaffinity(0))
        loader = StreamingDataLoader(
            dataset, batch_size=BATCH, num_workers=workers, persistent_workers=True
        )
        while True:
            yield from loader

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
