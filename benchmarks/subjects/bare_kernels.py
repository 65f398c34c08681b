"""The limit: read, decode, resize, encode in a process pool; nothing is checked or stored."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import simplejpeg

from beam_jobs.images.resize import FILTERS
from beam_jobs.options import ImageOptions
from benchmarks.subjects.clock import measure

SIDE = 256
QUALITY = 90
_FILES_PER_TASK = 64  # small enough that both processes end together


def resized(path: str) -> npt.NDArray[np.uint8]:
    """[height, width, 3] uint8: one photograph, by the kernels that shardmill uses."""
    with open(path, "rb", buffering=0) as file:
        data = file.readall()
    pixels = simplejpeg.decode_jpeg(data, "RGB", fastdct=False, fastupsample=False)
    height, width = pixels.shape[:2]
    shorter = min(height, width)
    size = (round(width * SIDE / shorter), round(height * SIDE / shorter))
    return FILTERS[ImageOptions.resize_filter](pixels, *size)


def encoded(pixels: npt.NDArray[np.uint8]) -> bytes:
    """A JPEG with shardmill's settings."""
    return simplejpeg.encode_jpeg(pixels, quality=QUALITY, colorspace="RGB", colorsubsampling="420")


def prepare(path: str) -> int:
    """Everything but storing it."""
    return len(encoded(resized(path)))


def main() -> None:
    """Arguments: SOURCE."""
    files = [str(path) for path in sorted(Path(sys.argv[1]).rglob("*.jpg"))]
    workers = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(workers) as pool:
        measure(
            lambda: sum(1 for _ in pool.imap_unordered(prepare, files, chunksize=_FILES_PER_TASK))
        )


if __name__ == "__main__":
    main()
