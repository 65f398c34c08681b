"""Clusters of any number of duplicates, sorted on disk.

Equal fingerprints are in one partition, so exact duplicates are found, and joined to clusters, a
partition at a time. The clusters of each become a sorted run in a file; then ranges of rows, cut
where samples of all runs say so, are read from every run and sorted in memory.
"""

from __future__ import annotations

import bisect
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from beam_jobs.dedup.clusters import CLUSTER_SCHEMA, Clusters

# A place in the order: kept_id and record_id of a row.
_Place = tuple[str, str]

_SAMPLES = 64  # of a range
_LEAST_BATCH_ROWS = 256  # of a run; a batch of each one is in memory


class ClusterRuns:
    """Takes clusters part by part, and gives back all their rows in order.

    Args:
        folder: A path of its own on the local disk; made if it is needed, and removed at the end.
        parts: How many parts there will be.
        rows: About how many rows are in memory at a time.

    Attributes:
        dropped: Number of records to leave out.
        conflicts: Clusters whose records have different labels.
        lost_to_conflict: Records left out only because the labels of their cluster differ.
    """

    def __init__(self, folder: Path, parts: int, rows: int) -> None:
        self._folder = folder
        self._batch_rows = max(_LEAST_BATCH_ROWS, rows // max(1, parts))
        self._sample_every = max(1, rows // _SAMPLES)
        self._paths: list[Path] = []
        self._samples: list[_Place] = []
        self._since_sample = 0
        self.dropped = self.conflicts = self.lost_to_conflict = 0

    def add(self, part: Clusters) -> None:
        """Takes clusters that have no record in common with those before."""
        if not len(part.members):
            return
        self.dropped += part.num_dropped
        self.conflicts += part.conflicts
        self.lost_to_conflict += part.lost_to_conflict
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / str(len(self._paths))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, CLUSTER_SCHEMA) as writer:
            writer.write_table(part.members, max_chunksize=self._batch_rows)
        self._paths.append(path)
        first = self._sample_every - 1 - self._since_sample
        for row in range(first, len(part.members), self._sample_every):
            self._samples.append(_place(part.members, row))
        self._since_sample = (self._since_sample + len(part.members)) % self._sample_every

    def in_order(self) -> Iterator[pa.Table]:
        """All rows, sorted by (kept_id, record_id), a range at a time."""
        cursors = [_Cursor(path) for path in self._paths]
        try:
            for end in [*sorted(self._samples)[_SAMPLES::_SAMPLES], None]:
                pieces = [piece for cursor in cursors for piece in cursor.until(end)]
                if pieces:
                    table = pa.concat_tables(pieces)
                    yield table.sort_by([("kept_id", "ascending"), ("record_id", "ascending")])
        finally:
            for cursor in cursors:
                cursor.close()

    def __enter__(self) -> ClusterRuns:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _Cursor:
    """Reads a run forwards, with one batch of it in memory; read, not mapped, which would stay."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self._reader = pa.ipc.open_file(self._file)
        self._next = 0
        self._rest = CLUSTER_SCHEMA.empty_table()

    def until(self, end: _Place | None) -> Iterator[pa.Table]:
        """The next rows, up to a place that is not included; None for all."""
        while True:
            if not len(self._rest):
                if self._next == self._reader.num_record_batches:
                    return
                self._rest = pa.Table.from_batches([self._reader.get_batch(self._next)])
                self._next += 1
            rows = len(self._rest) if end is None else _rows_before(self._rest, end)
            if rows:
                yield self._rest.slice(0, rows)
            self._rest = self._rest.slice(rows)
            if len(self._rest):
                return

    def close(self) -> None:
        self._file.close()


def _rows_before(table: pa.Table, end: _Place) -> int:
    return bisect.bisect_left(range(len(table)), end, key=partial(_place, table))


def _place(table: pa.Table, row: int) -> _Place:
    # Code points have the order of their UTF-8, in which Arrow sorts.
    return table["kept_id"][row].as_py(), table["record_id"][row].as_py()
