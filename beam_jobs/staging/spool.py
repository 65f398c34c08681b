"""Frames on their way into another order: in memory while they are few, then in a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

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
        self._held: list[bytes] = []
        self._ends: list[int] = [0]
        self._file: BinaryIO | None = None

    def append(self, framed: bytes) -> None:
        """Adds a frame behind the others."""
        self._ends.append(self._ends[-1] + len(framed))
        if self._file is not None:
            self._file.write(framed)
            return
        self._held.append(framed)
        if self._ends[-1] > _HELD_BYTES:
            self._file = self._path.open("wb", buffering=_WRITE_BYTES)
            self._file.writelines(self._held)
            self._held.clear()

    def take(self, order: Iterable[int]) -> Iterator[bytes]:
        """The frames of these numbers; none may be added after that."""
        if self._file is None:
            yield from (self._held[number] for number in order)
            return
        self._file.close()
        with self._path.open("rb", buffering=0) as file:
            for number in order:
                start, end = self._ends[number : number + 2]
                yield os.pread(file.fileno(), end - start, start)

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
