"""How a split is divided for reading, and among workers: sizes only, no order.

    window    what is read, parsed and kept in memory as a whole: `streams` blocks
    block     the part of a window that one canonical stream reads: some whole chunks
    chunk     consecutive records that are read in one piece, and that an epoch permutes

A geometry is a function of the shard set and of the number of streams, never of the workers or
of the size of a batch, so that the order of an epoch is one for all of them.

Positions count all records of an epoch, of all workers. Worker (i, n) has those with p % n == i, so
its share of every batch is batch_size / n, and all workers have the same number of steps.
"""

from __future__ import annotations

import dataclasses

from shard_format import SplitInfo

# Canonical streams where nobody says how many. Worker counts must divide them: 64 allows any power
# of two up to 64.
STREAMS = 64
# Lengths are sorted within the block of a stream, so larger blocks save padding: of 905 uniform
# lengths in batches of 32 and 16 groups 64 streams leave 19 % empty, 8 leave 17 %, 1 leaves 8 %; of
# 4096 lengths 19, 10 and 6 %.
BUCKET_STREAMS = 8
# At 27 kB a record, permuted chunks of 64 took 23 us of CPU a record, one long read 21.5 us.
CHUNK_RECORDS = 64
CHUNK_BYTES = 4 << 20  # 4 MiB: long enough that seeks and round trips do not count
WINDOW_RECORDS = 4096  # as many as a customary shuffle buffer
WINDOW_BYTES = 256 << 20  # 256 MiB: two windows, and copies of their parts, are in memory at a time


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The sizes of a split's parts, in records.

    Attributes:
        records: Number of records of the split, at least 1.
        streams: Canonical streams; the record at position p of an epoch is of stream p % streams.
        block_records: Number of records of one stream in a window; a multiple of chunk_records.
        chunk_records: Number of records of a chunk; the last one of an epoch may have fewer.
    """

    records: int
    streams: int
    block_records: int
    chunk_records: int

    @property
    def window_records(self) -> int:
        """Number of records of a window; the last one of an epoch may have fewer."""
        return self.streams * self.block_records

    @property
    def num_windows(self) -> int:
        """Number of windows of an epoch."""
        return -(-self.records // self.window_records)

    @property
    def num_chunks(self) -> int:
        """Number of chunks of an epoch, the last and shorter one not counted."""
        return self.records // self.chunk_records


def make_geometry(split: SplitInfo, streams: int, records: int | None = None) -> Geometry:
    """The geometry of a split that has at least one record.

    Where records are large, windows, chunks and in the end the number of streams are smaller: a
    window has a bound in bytes.

    Args:
        split: As the manifest describes it.
        streams: How many canonical streams are wanted, at least 1; halved while that is possible
            and a window of one record a stream is beyond `WINDOW_BYTES`.
        records: How many of its records are read, at least 1; None for all.
    """
    mean_bytes = split.bytes / split.records
    while streams % 2 == 0 and streams * mean_bytes > WINDOW_BYTES:
        streams //= 2
    window_records = min(WINDOW_RECORDS, int(WINDOW_BYTES // mean_bytes))
    block_records = max(1, window_records // streams)
    chunk_records = max(1, min(CHUNK_RECORDS, int(CHUNK_BYTES // mean_bytes), block_records))
    return Geometry(
        records=split.records if records is None else records,
        streams=streams,
        block_records=block_records - block_records % chunk_records,
        chunk_records=chunk_records,
    )


@dataclasses.dataclass(frozen=True)
class WorkerShard:
    """A worker's part of the epochs of a split.

    Attributes:
        geometry: The split.
        worker: i, in [0, workers).
        workers: n; divides the streams.
        emitted: Positions of an epoch: fewer than its records where a remainder is dropped, more
            where it is filled up from the beginning of the epoch; a multiple of n where n > 1.
    """

    geometry: Geometry
    worker: int
    workers: int
    emitted: int

    def own(self, positions: int) -> int:
        """Number of the first positions of an epoch that are this worker's."""
        return max(0, positions - self.worker + self.workers - 1) // self.workers

    def filling(self) -> list[tuple[int, int, int]]:
        """What fills up the end of an epoch: (window, residue, records of it), in order.

        The positions behind the last record are those of the beginning again; which of them are a
        worker's changes with every such lap, since the records need not be a multiple of n.
        """
        records, parts = self.geometry.records, []
        missing = self.own(self.emitted) - self.own(records)
        lap = 1
        while missing > 0:
            residue = (self.worker - lap * records) % self.workers
            for window in range(self.geometry.num_windows):
                base = window * self.geometry.window_records
                size = min(self.geometry.window_records, records - base)
                inside = min(missing, max(0, size - residue + self.workers - 1) // self.workers)
                if inside:
                    parts.append((window, residue, inside))
                    missing -= inside
            lap += 1
        return parts


def emitted_records(records: int, batch_size: int, remainder: str) -> int:
    """How many records an epoch gives: see `reader.options.REMAINDERS`."""
    if remainder == "drop":
        return records - records % batch_size
    if remainder == "keep":
        return records
    return records + -records % batch_size
