"""The baseline: PyTorch's DataLoader over files, with a worker process for each core."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import cv2
import torch

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.pixels import crop


class _Files(torch.utils.data.Dataset):
    def __init__(self, directory: Path) -> None:
        self._files = [(path, int(path.parent.name)) for path in sorted(directory.rglob("*.jpg"))]

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        path, label = self._files[number]
        return crop(path.read_bytes()), label


def _limit_threads(worker: int = 0) -> None:
    cv2.setNumThreads(1)
    torch.set_num_threads(1)


def main() -> None:
    """Arguments: DIR LIMITS."""
    directory, *limits = sys.argv[1:]
    files = _Files(Path(directory))

    def open_stream() -> Any:
        loader = torch.utils.data.DataLoader(
            files,
            BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=len(os.sched_getaffinity(0)),
            persistent_workers=True,
            worker_init_fn=_limit_threads,
        )
        while True:
            yield from loader

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
