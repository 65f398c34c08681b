"""Frames on their way into another order: in memory while they are few, then in a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, bounds_of, bytes_of

# 1 MiB per worker: a unit of any size takes the same. The rest goes through a file, that the page
# cache holds, and that is read and not mapped: pages of a map would count as memory of the job.
_HELD_BYTES = 1 << 20
_WRITE_BYTES = 1 << 20  # 1 MiB a system call
_TAKEN_RECORDS = 1024  # at a time


class Spool:
    """Takes frames as they come and gives them in any order.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: list[pa.LargeBinaryArray] = []
        self._held_bytes = 0
        self._sizes: list[IntArray] = []
        self._file: BinaryIO | None = None

    def append(self, frames: pa.LargeBinaryArray) -> None:
        """Adds [n] large_binary frames behind the others."""
        sizes = np.asarray(pc.binary_length(frames), np.int64)
        self._sizes.append(sizes)
        if self._file is not None:
            self._file.write(bytes_of(frames))
            return
        self._held.append(frames)
        self._held_bytes += int(sizes.sum())
        if self._held_bytes > _HELD_BYTES:
            self._file = self._path.open("wb", buffering=_WRITE_BYTES)
            self._file.writelines(map(bytes_of, self._held))
            self._held.clear()

    def take(self, order: IntArray) -> Iterator[bytes | memoryview]:
        """The frames of these numbers, one behind the other; none may be added after that."""
        if self._file is None:
            held = pa.chunked_array(self._held, pa.large_binary()).combine_chunks()
            for part in _parts(order):
                yield bytes_of(held.take(pa.array(part)))
            return
        self._file.close()
        ends = bounds_of(np.concatenate(self._sizes))
        with self._path.open("rb", buffering=0) as file:
            for part in _parts(order):
                begins, sizes = ends[part], ends[part + 1] - ends[part]
                for begin, size in zip(begins.tolist(), sizes.tolist(), strict=True):
                    yield os.pread(file.fileno(), size, begin)

    def close(self) -> None:
        """Removes the file."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)


def _parts(order: IntArray) -> Iterator[IntArray]:
    for start in range(0, len(order), _TAKEN_RECORDS):
        yield order[start : start + _TAKEN_RECORDS]
