"""Columns of all staged units, one unit in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.staging import UnitSummary, unit_files
from beam_jobs.storage import Workspace, read_table

IntArray = npt.NDArray[np.int64]


class Sidecars:
    """The Arrow sidecars of a corpus.

    Attributes:
        keys: Unit keys, sorted; a unit is named by its position in this list.
        records: Staged records over all units.
    """

    def __init__(self, workspace: Workspace, summaries: Iterable[UnitSummary]) -> None:
        self._workspace = workspace
        kept = {summary.key: summary.kept for summary in summaries if summary.kept}
        self.keys: Sequence[str] = sorted(kept)
        self.records = sum(kept.values())

    def table(self, unit: int) -> pa.Table:
        """The sidecar of one unit."""
        return read_table(unit_files(self._workspace, self.keys[unit])["arrow"])

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        for unit in range(len(self.keys)):
            yield unit, self.table(unit)


def uint64(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """[n] uint64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.uint64)


def int64(column: pa.ChunkedArray) -> IntArray:
    """[n] int64 of a column without nulls."""
    return np.asarray(column.to_numpy(), np.int64)


def fixed_bytes(column: pa.ChunkedArray, size: int) -> npt.NDArray[np.uint8]:
    """[n, size] uint8 of a fixed-size binary column without nulls."""
    parts: list[Any] = [
        np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, size)[
            chunk.offset : chunk.offset + len(chunk)
        ]
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, size), np.uint8)
