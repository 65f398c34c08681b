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


class Spool:
    """Takes frames as they come and gives them in any order.

    Args:
        path: A file of its own, made if it is needed and removed at the end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0
        self._held: list[pa.LargeBinaryArray] = []
        self._file: BinaryIO | None = None

    def append(self, frames: pa.LargeBinaryArray) -> IntArray:
        """Adds [n] large_binary frames behind the others; [n] int64, where each begins."""
        begins = self._bytes + bounds_of(np.asarray(pc.binary_length(frames), np.int64))
        self._bytes = int(begins[-1])
        if self._file is not None:
            self._file.write(bytes_of(frames))
            return begins[:-1]
        self._held.append(frames)
        if self._bytes > _HELD_BYTES:
            self._file = self._path.open("w+b", buffering=_WRITE_BYTES)
            self._file.writelines(map(bytes_of, self._held))
            self._held.clear()
        return begins[:-1]

    def take(self, begins: IntArray, sizes: IntArray) -> Iterator[bytes | memoryview]:
        """The frames of these sizes that begin there; none may be added after that."""
        places = zip(begins.tolist(), sizes.tolist(), strict=True)
        if self._file is None:
            held = memoryview(b"".join(map(bytes_of, self._held)))
            yield from (held[begin : begin + size] for begin, size in places)
            return
        self._file.flush()
        for begin, size in places:
            yield os.pread(self._file.fileno(), size, begin)

    def close(self) -> None:
        """Removes the file."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
