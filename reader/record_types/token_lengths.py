"""Tokens of every record, and the share of padding in batches, by the columns of the index."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from reader.options import ReadOptions
from reader.order.buckets import Lookup, bucket_order
from reader.order.geometry import Geometry, emitted_records
from reader.order.numpy_order import Int64Array, window_order

# Batches as long as their longest record are counted over this many windows: a million records of
# 4096 a window take about a second, and the rest of a larger split is like them.
MAX_WINDOWS = 256


class RecordLengths:
    """Number of tokens of every record, long records cut at `limit`.

    It holds views of the mapped index, whatever its size.

    Args:
        column: Column of the index; whole numbers without nulls.
        limit: Records are cut at that many; None cuts none.

    Attributes:
        total: Number of tokens of all records, after the cut.
        num_cut: Number of records that are cut.
        longest: Number of tokens of the longest record, after the cut; 0 where there are none.

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
        lengths = np.empty(len(numbers), np.int64)
        parts = np.searchsorted(self._ends, numbers, side="right")
        for part in np.unique(parts):
            own = parts == part
            values = self._parts[part]
            lengths[own] = values[numbers[own] - (self._ends[part] - len(values))]
        return np.minimum(lengths, self._limit)


def padding_share(lengths: RecordLengths, geometry: Geometry, options: ReadOptions) -> float:
    """Share of the positions of the batches of the first epoch that hold no token, in [0, 1).

    Args:
        lengths: Lengths of all records, none above the length of a batch.
        geometry: Sizes of the split's parts.
        options: Options by which batches are made and padded; "max" pads to the longest record
            where no max_tokens is given.
    """
    if options.pad == "none":
        return 0.0
    if options.pad == "max":
        longest = options.max_tokens or max(1, lengths.longest)
        return 1.0 - lengths.total / (len(lengths) * longest)
    emitted = emitted_records(geometry.records, options.batch_size, str(options.remainder))
    read = lengths[_first_records(lengths, geometry, options)[:emitted]]
    starts = np.arange(0, len(read), options.batch_size)
    sizes = np.minimum(options.batch_size, len(read) - starts)
    positions = int((np.maximum.reduceat(np.maximum(read, 1), starts) * sizes).sum())
    return 1.0 - float(read.sum()) / positions


def _first_records(lengths: Lookup, geometry: Geometry, options: ReadOptions) -> Int64Array:
    """The record numbers of the first windows of the first epoch in the order of the batches."""
    parts, seed, share = [], options.seed, (0, 1)
    for window in range(min(MAX_WINDOWS, geometry.num_windows)):
        if options.buckets > 1:
            numbers, wanted = bucket_order(
                geometry, lengths, window, share, options.batch_size, options.buckets, seed, 0
            )
        else:
            numbers, wanted = window_order(geometry, window, share, seed, 0, options.shuffle)
        parts.append(numbers[wanted])
    return np.concatenate(parts)
