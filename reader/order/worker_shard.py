"""Which part of which window a worker reads, and when: the arithmetic of epochs, without records.

Positions count all records of an epoch, of all workers. Worker (i, n) has those with p % n == i, so
its share of every batch is batch_size / n, and all workers have the same number of steps.
"""

from __future__ import annotations

import dataclasses

from reader.order.geometry import Geometry


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
        """How many of the first positions of an epoch are this worker's."""
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
