"""The rows of a split in the order of their keys, merged from the sorted runs of its generations.

The rows of a generation are sorted already. So a merge holds some rows of each of them, and a set
of any size is compacted in the same memory.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import IntArray, slices, uint64
from beam_jobs.workspace import Workspace
from foundation.storage import Place
from shard_format import DamageError, Manifest, open_index
from shard_format.index import read_schema
from shard_format.index_parts import index_tables
from shard_format.shard_list import shard_numbers

_NONE_LEFT_OUT = np.zeros(0, np.int64)


class SortedRows:
    """The rows of the index of a split, without some, and with others.

    Args:
        base: The set.
        manifest: Manifest of the set.
        split: Name of the split.
        workspace: Has room for copies of remote files.
        left_out: [k] int64, ascending: numbers of rows that are left out.
        added: Rows that are added behind all others, sorted by their keys.

    Attributes:
        schema: The columns of the index.
    """

    def __init__(
        self,
        base: Place,
        manifest: Manifest,
        split: str,
        workspace: Workspace,
        left_out: IntArray = _NONE_LEFT_OUT,
        added: pa.Table | None = None,
    ) -> None:
        self._base, self._manifest, self._split = base, manifest, split
        self._workspace = workspace
        self._left_out = left_out
        self._added = added
        self._parts = manifest.index_parts(split)
        records = shard_numbers(manifest.splits[split].shards, "records")
        own = (int(records[one.start : one.stop].sum()) for _, one in self._shards())
        self._begins = np.cumsum([0, *own], dtype=np.int64)  # first row of each part
        self.schema = read_schema(base / self._parts[0].file)

    def scan(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yields columns of all rows in the order of the index, some rows at a time."""
        for first, table in self._tables(names):
            for rows in slices(table, bounds.MERGED_ROWS):
                yield self._kept(first, rows)
                first += len(rows)
        if self._added is not None:
            yield self._added.select(names)

    def in_order(self, by: Sequence[str]) -> Iterator[pa.Table]:
        """Yields all rows in order, some of them at a time; rows of one key never apart.

        Args:
            by: Names of the columns to sort by, "key" first. Rows that are equal in all of them
                stay in the order of the index.
        """
        keys = [(name, "ascending") for name in by]
        size = share = max(1, bounds.MERGED_ROWS // (len(self._runs) + 1))
        runs = [_SortedRun(self._rows_of(rows, share)) for rows in self._runs]
        if self._added is not None:
            runs.append(_SortedRun(slices(self._added, share)))
        while True:
            for run in runs:
                run.fill(size)
            # What is below the last key that some run has so far is there of all of them.
            ends = [int(run.keys[-1]) for run in runs if not run.is_last]
            pieces = [run.take_until(min(ends, default=None)) for run in runs]
            pieces = [piece for piece in pieces if len(piece)]
            if pieces:
                table = pa.concat_tables(pieces).combine_chunks()
                yield table.take(pc.sort_indices(table.select(by), sort_keys=keys))
                size = share
            elif ends:
                size *= 2  # more rows of one key than a run has in memory
            else:
                return

    def _shards(self) -> Iterator[tuple[object, range]]:
        return self._manifest.shards_by_part(self._split)

    def _tables(self, names: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Yields (number of the first row, rows) of every part.

        Raises:
            DamageError: A part has another number of rows than its shards have records.
        """
        tables = index_tables(self._base, self._manifest, self._split, names)
        for number, table in enumerate(tables):
            self._check(number, table)
            yield int(self._begins[number]), table.select(names)

    def _check(self, number: int, table: pa.Table) -> None:
        records = int(self._begins[number + 1] - self._begins[number])
        if len(table) != records:
            raise DamageError(
                f"The index {self._base / self._parts[number].file} has {len(table):,} rows, and "
                f"its shards have {records:,} records. Run 'shardmill verify {self._base}'."
            )

    @functools.cached_property
    def _runs(self) -> list[range]:
        """The rows of the index, cut where the keys descend: at the first row of a generation."""
        begins, last = [0], 0
        for first, table in self._tables(["key"]):
            keys = uint64(table["key"])
            if len(keys):
                descends = np.flatnonzero(keys[1:] < keys[:-1]) + 1
                begins += [first] * (int(keys[0]) < last) + (first + descends).tolist()
                last = int(keys[-1])
        edges = [*begins, int(self._begins[-1])]
        return [range(begin, end) for begin, end in itertools.pairwise(edges) if begin < end]

    def _rows_of(self, run: range, size: int) -> Iterator[pa.Table]:
        """Yields the rows of a run, so many at a time, from its parts, of which one is open."""
        first = int(np.searchsorted(self._begins, run.start, side="right")) - 1
        for number in range(first, len(self._parts)):
            begin = int(self._begins[number])
            if begin >= run.stop:
                return
            # Mapped, so that a slice of a part is in memory and not all of it.
            with self._workspace.local_copy(self._base / self._parts[number].file) as path:
                table = open_index(path)
                self._check(number, table)
                at = max(begin, run.start)
                for rows in slices(table.slice(at - begin, run.stop - at), size):
                    yield self._kept(at, rows)
                    at += len(rows)

    def _kept(self, first: int, rows: pa.Table) -> pa.Table:
        """The rows that are not left out, of neighbours that begin with row number `first`."""
        begin, end = np.searchsorted(self._left_out, [first, first + len(rows)])
        if begin == end:
            return rows
        kept = np.ones(len(rows), bool)
        kept[self._left_out[begin:end] - first] = False
        return rows.filter(pa.array(kept))


class _SortedRun:
    """Sorted rows that are read forwards, of which some are in memory.

    Args:
        rows: The rows.

    Attributes:
        keys: [n] uint64, keys of the rows that are in memory.
        is_last: Whether these are the last ones.
    """

    def __init__(self, rows: Iterator[pa.Table]) -> None:
        self._tables = rows
        self._rows: pa.Table | None = None
        self.keys = np.zeros(0, np.uint64)
        self.is_last = False

    def fill(self, size: int) -> None:
        """Reads on until there are so many rows in memory, or all."""
        while len(self.keys) < size and not self.is_last:
            table = next(self._tables, None)
            if table is None:
                self.is_last = True
                return
            self._rows = table if self._rows is None else pa.concat_tables([self._rows, table])
            self.keys = uint64(self._rows["key"])

    def take_until(self, end: int | None) -> pa.Table:
        """Takes the rows whose keys are below `end`; all if that is None."""
        rows = self._rows if self._rows is not None else pa.table({})
        if end is None:
            count = len(self.keys)
        else:
            count = int(np.searchsorted(self.keys, np.uint64(end), side="left"))
        self._rows, self.keys = rows.slice(count), self.keys[count:]
        return rows.slice(0, count)
