"""Rows of a whole corpus on their way into partitions that fit in memory.

They are added in any order, once, and wait in a file for each partition, so that the time of
planning grows with the corpus, and not with its square as with a pass for every partition. If there
is one partition, they wait in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray

_HELD_ROWS = 1 << 16  # that wait for a place in a file: some 2 MiB

# Rows of a partition: 24 bytes each while sorted, some 200 if they are duplicates.
_LEAST_ROWS, _MOST_ROWS = 1 << 16, 4 << 20
_MOST_PARTITIONS = 256  # each with an open file for a moment, and with a look at every unit

StructuredArray = npt.NDArray[np.void]


def rows_of_partition(records: int) -> int:
    """Rows of a partition of a corpus: the same for up to 16 million records."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, -(-records // _MOST_PARTITIONS)))


class Partitions:
    """Takes rows, and gives them back by partition.

    Args:
        folder: A path of its own on the local disk; made if it is needed, and removed at the end.
        dtype: Structured type of a row.
        number: How many partitions there are.
    """

    def __init__(self, folder: Path, dtype: np.dtype[Any], number: int) -> None:
        self._folder = folder
        self._dtype = dtype
        self._number = number
        self._held: list[tuple[IntArray, StructuredArray]] = []
        self._held_rows = 0

    def add(self, partition: IntArray, rows: StructuredArray) -> None:
        """Adds rows.

        Args:
            partition: [n], in [0, number).
            rows: [n].
        """
        for start in range(0, len(rows), _HELD_ROWS):  # a unit may have a million
            part = slice(start, start + _HELD_ROWS)
            self._held.append((partition[part], rows[part]))
            self._held_rows += len(rows[part])
            if self._number > 1 and self._held_rows >= _HELD_ROWS:
                self._flush()

    def take(self) -> Iterator[StructuredArray]:
        """The rows of every partition, in the order in which they were added."""
        if self._number == 1:
            yield self._joined()[1]
            return
        self._flush()
        for number in range(self._number):
            path = self._path(number)
            yield np.fromfile(path, self._dtype) if path.exists() else np.empty(0, self._dtype)
            path.unlink(missing_ok=True)

    def _flush(self) -> None:
        """Appends what is held to the files."""
        if not self._held_rows:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        partition, rows = self._joined()
        order = np.argsort(partition, kind="stable")
        numbers, begins = np.unique(partition[order], return_index=True)
        for number, part in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
            with self._path(number).open("ab") as file:
                rows[part].tofile(file)

    def _joined(self) -> tuple[IntArray, StructuredArray]:
        held, self._held, self._held_rows = self._held, [], 0
        nothing = (np.empty(0, np.int64), np.empty(0, self._dtype))
        partitions, rows = zip(nothing, *held, strict=True)
        return np.concatenate(partitions), np.concatenate(rows)

    def _path(self, number: int) -> Path:
        return self._folder / str(number)

    def __enter__(self) -> Partitions:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
