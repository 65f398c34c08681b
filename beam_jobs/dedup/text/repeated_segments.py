"""Segments that occur in the corpus more than once: which one is kept, and which are removed.

Kept is the segment in an evaluation split before one in the training split (so that a leak costs
training data, not evaluation data), then that of the record whose id has the smallest hash, then
the first one in its document; so the choice depends neither on the seed nor on the order of
reading.

The hash space is processed in partitions, so memory has a bound: segments wait for theirs in files,
32 bytes each, after one pass over the sidecars. The result is a file with 8 bytes per removed
segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, bounds_of, ranges, repeated, run_starts, uint64
from beam_jobs.dedup.text.segments import BLANK, SHORT
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array

SEGMENT_HASHES = "segment_hashes"  # column of a sidecar
# Record and segment in one number. Segments after the 16,777,216th of a document are kept.
_SEGMENT_BITS = np.uint64(24)
_MAX_SEGMENTS = 1 << 24
# A segment as it waits; the kept one of equal hashes is the least in the order of these fields.
_SEGMENT = np.dtype([(name, np.uint64) for name in ("hash", "rank", "id_hash", "packed")])
_KEPT_FIRST = {"test": 0, "validation": 1, "": 2, "train": 3}


class RemovedSegments:
    """The segments to remove, in a memory-mapped file.

    Args:
        packed: [k] uint64, ascending: number of the record, then of the segment.
    """

    def __init__(self, packed: UInt64Array) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    def of(self, records: IntArray) -> pa.LargeListArray:
        """[n] large_list<int32>: the segments to remove from each record, ascending.

        Args:
            records: [n] int64, numbers of records in any order.
        """
        begins, ends = (self._place(records + after) for after in (0, 1))
        at, _ = ranges(begins, ends - begins)
        segments = (self._packed[at] & np.uint64(_MAX_SEGMENTS - 1)).astype(np.int32)
        return pa.LargeListArray.from_arrays(bounds_of(ends - begins), segments)

    def counts(self, first: int, last: int) -> IntArray:
        """[last - first] segments to remove from each record in [first, last)."""
        return np.diff(self._place(np.arange(first, last + 1)))

    def _place(self, records: IntArray) -> IntArray:
        return np.searchsorted(self._packed, records.astype(np.uint64) << _SEGMENT_BITS)


def plan_removals(
    sidecars: Sidecars, assignment: Assignment, path: Path, partition_rows: int
) -> tuple[RemovedSegments, int]:
    """Finds the segments to remove, and leaves out records of which nothing would remain.

    Args:
        sidecars: All staged units.
        assignment: The splits; changed in place.
        path: A file for the result.
        partition_rows: About how many segments are compared at a time.

    Returns:
        The segments to remove, and how many records were left out.
    """
    path.unlink(missing_ok=True)
    total = sum(
        int(pc.sum(pc.list_value_length(table[SEGMENT_HASHES])).as_py() or 0)
        for _, table in sidecars
    )
    partitions = max(1, -(-total // partition_rows))
    with path.open("wb") as file, closing(sidecars.partitions(_SEGMENT, partitions)) as waiting:
        for segments in _comparable(sidecars, assignment):
            part = (segments["hash"] % np.uint64(partitions)).astype(np.int64)
            waiting.add(part, segments)
        for segments in waiting.take():
            file.write(_repeats(segments).tobytes())
    packed: UInt64Array = np.zeros(0, np.uint64)
    if path.stat().st_size:
        packed = np.memmap(path, np.uint64, "r+")
        packed.sort()
    removed = RemovedSegments(packed)
    return removed, _leave_out_emptied(sidecars, assignment, removed)


def _split_ranks(assignment: Assignment) -> UInt64Array:
    """[splits] rank of each split: the segment in the split of the lowest rank is kept."""
    ranks = [_KEPT_FIRST[assignment.role(split)] for split in range(len(assignment.names))]
    if ranks:
        ranks[assignment.training] = _KEPT_FIRST["train"]
    return np.array(ranks, np.uint64)


def _repeats(segments: StructuredArray) -> UInt64Array:
    """All but the kept one of equal segments, packed, in no particular order."""
    some = segments[repeated(segments["hash"])]
    some = some[np.lexsort([some[name] for name in reversed(_SEGMENT.names or ())])]
    packed: UInt64Array = some["packed"][~run_starts(some["hash"])]
    return packed


def _comparable(sidecars: Sidecars, assignment: Assignment) -> Iterator[StructuredArray]:
    """Yields the segments of the records that are in a split, part by part."""
    ranks = _split_ranks(assignment)
    for begin, table in sidecars:
        split_of = assignment.of(begin, table)
        hashes, row, number = _segments(table)
        inside = (hashes > SHORT) & (split_of[row] != LEFT_OUT) & (number < _MAX_SEGMENTS)
        hashes, row, number = hashes[inside], row[inside], number[inside]
        record = (row + begin).astype(np.uint64)
        segments = np.empty(len(hashes), _SEGMENT)
        segments["hash"], segments["rank"] = hashes, ranks[split_of[row]]
        segments["id_hash"] = uint64(table["id_hash"])[row]
        segments["packed"] = (record << _SEGMENT_BITS) | number.astype(np.uint64)
        yield segments


def _segments(table: pa.Table) -> tuple[UInt64Array, IntArray, IntArray]:
    """(hash, row, number in the document) of every segment of a unit, in their order."""
    column = table[SEGMENT_HASHES].combine_chunks()
    sizes = pc.list_value_length(column).to_numpy().astype(np.int64)
    number, row = ranges(np.zeros_like(sizes), sizes)
    return column.flatten().to_numpy(), row, number


def _leave_out_emptied(sidecars: Sidecars, assignment: Assignment, removed: RemovedSegments) -> int:
    """Leaves out the records of which only blank segments would remain; how many there are.

    All their content is kept in other records.
    """
    count = 0
    if not len(removed):
        return 0
    for begin, table in sidecars:
        out = removed.counts(begin, begin + len(table))
        hashes, row, _ = _segments(table)
        not_blank = np.bincount(row[hashes != BLANK], minlength=len(table))
        emptied = (out > 0) & (out == not_blank)
        assignment.of(begin, table)[emptied] = LEFT_OUT
        count += int(emptied.sum())
    return count
