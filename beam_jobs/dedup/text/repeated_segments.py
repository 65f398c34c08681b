"""Lines and paragraphs that stand in the corpus more than once: which stays, and what goes.

Of equal parts one stays: that of an evaluation split before one of the training split (a leak is
mended where it does no harm), then of the record whose id has the smallest hash, then the first in
its document; so the choice depends neither on the seed nor on the order of reading.

The hash space is worked through in partitions, so memory has a bound; what is found lies in a file
of 8 bytes for each part that goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, uint64
from beam_jobs.corpus.names import SPLIT_NAMES
from beam_jobs.dedup.text.segments import BLANK, SHORT
from beam_jobs.stages.plan.splits import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array

PART_HASHES = "part_hashes"  # column of evidence
# A record and a part of it in one number. Parts behind the 16,777,216th of a document stay.
_PART_BITS = np.uint64(24)
_MOST_PARTS = 1 << 24
_FIRST_TO_STAY = {"test": 0, "validation": 1, "": 2, "train": 3}


class DroppedParts:
    """The parts that go, sorted, in a memory-mapped file.

    Args:
        packed: [k] uint64, ascending: number of the record, then of the part.
    """

    def __init__(self, packed: UInt64Array) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed)

    def of(self, records: IntArray) -> pa.LargeListArray:
        """[n] large_list<int32>: the parts of each record that go, ascending.

        Args:
            records: [n] int64, numbers of records in any order.
        """
        begins, ends = (self._place(records + after) for after in (0, 1))
        sizes = ends - begins
        stops = np.cumsum(sizes)
        at = np.arange(int(sizes.sum())) + np.repeat(begins - (stops - sizes), sizes)
        parts = (self._packed[at] & np.uint64(_MOST_PARTS - 1)).astype(np.int32)
        offsets = np.concatenate((np.zeros(1, np.int64), stops))
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(parts))

    def counts(self, first: int, last: int) -> IntArray:
        """[last - first] parts that go, of each record in [first, last)."""
        return np.diff(self._place(np.arange(first, last + 1)))

    def _place(self, records: IntArray) -> IntArray:
        return np.searchsorted(self._packed, records.astype(np.uint64) << _PART_BITS)


def drop_repeated_parts(
    sidecars: Sidecars, assignment: Assignment, path: Path, partition_rows: int
) -> tuple[DroppedParts, int]:
    """Finds the parts that go, and leaves records out of which nothing would be left.

    Args:
        sidecars: All staged units.
        assignment: The splits; changed in place.
        path: A file for what is found.
        partition_rows: About how many parts are compared at a time.

    Returns:
        What goes, and how many records were left out.
    """
    path.unlink(missing_ok=True)
    total = sum(
        int(pc.sum(pc.list_value_length(table[PART_HASHES])).as_py() or 0) for _, table in sidecars
    )
    partitions = max(1, -(-total // partition_rows))
    stays = _order_of_splits(assignment)
    with path.open("wb") as file:
        for partition in range(partitions):
            found = _Found.of(
                _long_parts(sidecars, assignment, stays, partition, partitions)
            ).repeats()
            file.write(found.tobytes())
    packed: UInt64Array = np.zeros(0, np.uint64)
    if path.stat().st_size:
        packed = np.memmap(path, np.uint64, "r+")
        packed.sort()
    dropped = DroppedParts(packed)
    return dropped, _leave_out_emptied(sidecars, assignment, dropped)


def _order_of_splits(assignment: Assignment) -> npt.NDArray[np.int64]:
    """[splits] rank of each: in which the part of the lowest rank stays."""
    ranks = [_FIRST_TO_STAY[SPLIT_NAMES.get(name, "")] for name in assignment.names]
    if ranks:
        ranks[assignment.training] = _FIRST_TO_STAY["train"]
    return np.array(ranks, np.int64)


class _Found(NamedTuple):
    """Parts that are long enough to be compared; [n] each."""

    hashes: UInt64Array
    rank: IntArray  # of the split
    id_hash: UInt64Array
    packed: UInt64Array  # record and part

    @classmethod
    def of(cls, parts: Iterator[_Found]) -> _Found:
        """All of them together."""
        nothing = np.zeros(0, np.uint64)
        none = cls(nothing, np.zeros(0, np.int64), nothing, nothing)
        return cls(*(np.concatenate(column) for column in zip(none, *parts, strict=True)))

    def repeats(self) -> UInt64Array:
        """Those of equal ones that go, packed, in no particular order."""
        ordered = np.sort(self.hashes)
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(repeated):
            return np.zeros(0, np.uint64)
        at = np.minimum(np.searchsorted(repeated, self.hashes), len(repeated) - 1)
        some = _Found(*(column[repeated[at] == self.hashes] for column in self))
        order = np.lexsort((some.packed, some.id_hash, some.rank, some.hashes))
        hashes = some.hashes[order]
        return some.packed[order][1:][hashes[1:] == hashes[:-1]]


def _long_parts(
    sidecars: Sidecars,
    assignment: Assignment,
    stays: npt.NDArray[np.int64],
    partition: int,
    partitions: int,
) -> Iterator[_Found]:
    """The parts of one partition of the hash space, of records that are in a split."""
    for unit, table in sidecars:
        hashes, row, part = _parts(table)
        split = assignment.unit(unit)[row].astype(np.int64)
        inside = (hashes > SHORT) & (split != LEFT_OUT) & (part < _MOST_PARTS)
        inside &= hashes % np.uint64(partitions) == partition
        hashes, row, part, split = hashes[inside], row[inside], part[inside], split[inside]
        record = (row + sidecars.begins[unit]).astype(np.uint64)
        packed = (record << _PART_BITS) | part.astype(np.uint64)
        yield _Found(hashes, stays[split], uint64(table["id_hash"])[row], packed)


def _parts(table: pa.Table) -> tuple[UInt64Array, IntArray, IntArray]:
    """(hash, row, number in the document) of every part of a unit, in their order."""
    column = table[PART_HASHES].combine_chunks()
    sizes = pc.list_value_length(column).to_numpy().astype(np.int64)
    row = np.repeat(np.arange(len(sizes)), sizes)
    part = np.arange(len(row)) - (np.cumsum(sizes) - sizes)[row]
    return column.flatten().to_numpy(), row, part


def _leave_out_emptied(sidecars: Sidecars, assignment: Assignment, dropped: DroppedParts) -> int:
    """Leaves out the records all of whose parts go, but for blank ones; how many there are.

    What such a record said stands elsewhere, so nothing is lost with it.
    """
    count = 0
    if not len(dropped):
        return 0
    for unit, table in sidecars:
        first, last = sidecars.begins[unit : unit + 2].tolist()
        out = dropped.counts(first, last)
        hashes, row, _ = _parts(table)
        said = np.bincount(row[hashes != BLANK], minlength=last - first)
        emptied = (out > 0) & (out == said)
        assignment.unit(unit)[emptied] = LEFT_OUT
        count += int(emptied.sum())
    return count
