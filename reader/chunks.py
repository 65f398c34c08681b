"""A split cut into chunks: the unit that is read in one piece, and that an epoch permutes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shard_format import DamageError, SplitInfo

Int64Array = npt.NDArray[np.int64]

# At 27 kB a record, permuted chunks of 64 took 23 us of CPU a record, one long read 21.5 us.
CHUNK_RECORDS = 64
CHUNK_BYTES = 4 << 20  # 4 MiB: long enough that seeks and round trips do not count
WINDOW_RECORDS = 4096  # as many as a customary shuffle buffer
WINDOW_BYTES = 256 << 20  # 256 MiB: two windows, and copies of their parts, are in memory at a time


@dataclasses.dataclass(frozen=True)
class Chunks:
    """A split as runs of consecutive records, each within one shard, in the order on disk.

    Everything here is a function of the shard set alone, so the order of an epoch is too.

    Attributes:
        first: [num_chunks] number of the chunk's first record within the split.
        count: [num_chunks] records in the chunk, at least 1.
        shard: [num_chunks] index into the shards of the split.
        offset: [num_chunks] first byte of the chunk within its shard.
        size: [num_chunks] bytes of the chunk, frames included.
        chunk_records: The largest count; the last chunk of a shard may have fewer.
        window_chunks: How many chunks are shuffled together.
    """

    first: Int64Array
    count: Int64Array
    shard: Int64Array
    offset: Int64Array
    size: Int64Array
    chunk_records: int
    window_chunks: int

    @property
    def num_records(self) -> int:
        """Records of the split."""
        return int(self.count.sum())


def cut_chunks(split: SplitInfo, index: pa.Table, where: Path) -> Chunks:
    """The chunks of a split that has at least one record.

    Only the rows at which chunks begin are touched, so the index of a billion records stays on
    disk. Chunks hold fewer records where records are large: a window has a bound in bytes.

    Args:
        split: The split as the manifest describes it.
        index: The split's index.
        where: The index file, for messages.

    Raises:
        DamageError: The index has another number of records than the manifest.
    """
    if index.num_rows != split.records:
        raise DamageError(
            f"an index must have one row per record ({split.records}), got {index.num_rows} in "
            f"{where}. Run 'shardmill verify' and build the set again."
        )
    mean_bytes = split.bytes / split.records
    chunk_records = int(np.clip(CHUNK_BYTES // mean_bytes, 1, CHUNK_RECORDS))
    window_records = int(np.clip(WINDOW_BYTES // mean_bytes, 1, WINDOW_RECORDS))

    shard_records = np.array([shard.records for shard in split.shards], np.int64)
    shard_ends = np.cumsum(shard_records)
    first = np.concatenate(
        [
            np.arange(end - n, end, chunk_records)
            for n, end in zip(shard_records, shard_ends, strict=True)
        ]
    )
    shard = np.searchsorted(shard_ends, first, side="right").astype(np.int64)
    last = np.minimum(first + chunk_records, shard_ends[shard]) - 1
    offset = _column(index, "offset", first)
    return Chunks(
        first=first,
        count=last - first + 1,
        shard=shard,
        offset=offset,
        size=_column(index, "offset", last) + _column(index, "length", last) - offset,
        chunk_records=chunk_records,
        window_chunks=max(1, window_records // chunk_records),
    )


def _column(index: pa.Table, name: str, rows: Int64Array) -> Int64Array:
    """[len(rows)] int64: the values of a column at these rows."""
    return np.asarray(pc.take(index[name], pa.array(rows)).to_numpy(), np.int64)
