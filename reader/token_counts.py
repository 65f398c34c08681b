"""How many tokens every record has, as the index counts them: looked up there, never held."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from reader.order import Int64Array


class Lookup(Protocol):
    """[records] whole numbers; an array, or something that looks them up."""

    def __getitem__(self, numbers: Int64Array, /) -> Int64Array:
        """[n] of [n] record numbers."""


class TokenCounts:
    """[records] tokens, of long records `limit`. Views of the mapped index, whatever its size.

    Args:
        column: Of the index; whole numbers without nulls.
        limit: Records are cut at that many; None cuts none.

    Attributes:
        total: Tokens of all records, after the cut.
        num_cut: Records that are cut.
        longest: Tokens of the longest record, after the cut; 0 where there are none.

    Raises:
        pa.ArrowInvalid: The column has nulls.
    """

    def __init__(self, column: pa.ChunkedArray, limit: int | None) -> None:
        self._parts = [chunk.to_numpy(zero_copy_only=True) for chunk in column.chunks]
        self._ends = np.cumsum([len(part) for part in self._parts], dtype=np.int64)
        # An int64, not a Python number: it may be beyond what an int32 column can hold.
        self._limit = np.int64(np.iinfo(np.int64).max if limit is None else limit)
        self.total = self.num_cut = self.longest = 0
        for part in filter(len, self._parts):  # a record batch each, of a shard at most
            cut = np.minimum(part, self._limit)
            self.total += int(cut.sum(dtype=np.int64))
            self.num_cut += int((part > cut).sum())
            self.longest = max(self.longest, int(cut.max()))

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, numbers: Int64Array, /) -> Int64Array:
        found = np.empty(len(numbers), np.int64)
        parts = np.searchsorted(self._ends, numbers, side="right")
        for part in np.unique(parts):
            own = parts == part
            values = self._parts[part]
            found[own] = values[numbers[own] - (self._ends[part] - len(values))]
        return np.minimum(found, self._limit)
