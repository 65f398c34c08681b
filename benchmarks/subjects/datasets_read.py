"""The baseline: Hugging Face datasets over Parquet, in PyTorch's DataLoader as an iterable.

Shards are shuffled, and records in a buffer; a worker process for each core.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import cv2
import datasets
import torch

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.pixels import crop

_BUFFER = 2048


def _decoded(record: dict[str, Any]) -> dict[str, Any]:
    return {"image": torch.from_numpy(crop(record["jpeg"])), "label": record["label"]}


def _limit_threads(worker: int) -> None:
    cv2.setNumThreads(1)


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]
    files = sorted(map(str, Path(directory).glob("*.parquet")))

    def open_stream() -> Any:
        records = datasets.load_dataset(
            "parquet", data_files=files, split="train", streaming=True, cache_dir=directory
        )
        # Filling a buffer from one file after the other leaves files for every worker, and has no
        # threads, for whose end datasets 5 sleeps 5 seconds in every epoch.
        records = records.shuffle(seed=0, buffer_size=_BUFFER, max_buffer_input_shards=1)
        records = records.map(_decoded, remove_columns=["jpeg"])
        workers = len(os.sched_getaffinity(0))
        loader = torch.utils.data.DataLoader(
            records,
            BATCH,
            num_workers=workers,
            drop_last=True,
            persistent_workers=True,
            worker_init_fn=_limit_threads,
        )
        while True:
            for batch in loader:
                yield batch["image"], batch["label"]

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
