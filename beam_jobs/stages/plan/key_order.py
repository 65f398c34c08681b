"""Shuffle keys: where shards begin, and all kept records in key order, a range at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.plan.balance import Repeats, copy_keys
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array

# The keys of a bin with a boundary are in memory, and so is the count of every bin: up to 2**24
# bins, 128 MiB per split, from 2 billion records on.
_KEYS_OF_BIN = 256
_LEAST_BITS, _MOST_BITS = 16, 24


def histogram_bits(records: int) -> int:
    """Leading bits to count by, for a corpus of this many records."""
    return min(_MOST_BITS, max(_LEAST_BITS, (records // _KEYS_OF_BIN).bit_length()))


class Quantiles:
    """Finds the first key of each shard of one split, exactly and in bounded memory.

    The first pass over the keys counts them by their leading bits; the second collects the keys of
    those bins that have a boundary. So shards differ by at most one record at any size, and never
    are all keys in memory at once.

    Call `count` with all keys, then `choose`, then `collect` with all keys again, then `keys`.

    Args:
        bits: Leading bits of the key to count by.
    """

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self.histogram: npt.NDArray[np.int64] = np.zeros(1 << bits, np.int64)
        self._ranks = self._bins = np.zeros(0, np.int64)
        self._wanted = np.zeros(0, bool)
        self._collected: list[UInt64Array] = []

    @property
    def records(self) -> int:
        """Keys counted so far."""
        return int(self.histogram.sum())

    def count(self, keys: UInt64Array) -> None:
        """First pass."""
        bins = (keys >> self._shift).astype(np.int64)
        np.add.at(self.histogram, bins, 1)

    def choose(self, num_shards: int) -> None:
        """Sets the number of shards n; shard i begins at rank floor(i * records / n)."""
        self._ranks = np.arange(1, num_shards, dtype=np.int64) * self.records // num_shards
        self._bins = np.searchsorted(np.cumsum(self.histogram), self._ranks, side="right")
        self._wanted = np.zeros(len(self.histogram), bool)
        self._wanted[self._bins] = True

    def collect(self, keys: UInt64Array) -> None:
        """Second pass."""
        self._collected.append(keys[self._wanted[(keys >> self._shift).astype(np.int64)]])

    def keys(self) -> UInt64Array:
        """[num_shards - 1] uint64: the first key of every shard but the first, ascending.

        Two records with the same 64-bit key go to the same shard; with 16 million records that
        happens once in 131,000 builds, and matters only at a boundary.
        """
        if not len(self._ranks):
            return np.zeros(0, np.uint64)
        collected = np.sort(np.concatenate(self._collected))
        # Rank among the collected keys: the keys of the bins that were not collected are skipped.
        skipped = np.cumsum(np.where(self._wanted, 0, self.histogram))
        return collected[self._ranks - skipped[self._bins]]


@dataclasses.dataclass
class SplitKeys:
    """The keys and the size of a split, before its shards are cut.

    Attributes:
        name: Name of the split.
        keys: The shuffle keys of its records and their copies.
        bytes: Bytes of its records and their copies, as staged.
    """

    name: str
    keys: Quantiles
    bytes: int = 0


class Rows(NamedTuple):
    """Records in key order; [n] each.

    Attributes:
        key: Shuffle key; of a copy, its own.
        split: Number of the split.
        unit: Number of the unit.
        row: In the unit's sidecar.
    """

    key: UInt64Array
    split: IntArray
    unit: IntArray
    row: IntArray


# A row as it waits for its range of keys to be complete.
_ROW = np.dtype([("key", np.uint64), ("split", np.int8), ("unit", np.int32), ("row", np.int32)])


def copies_of(
    unit: int, keys: UInt64Array, sidecars: Sidecars, repeats: Repeats
) -> tuple[IntArray, UInt64Array]:
    """(row, key) of every copy of a record of this unit; the record itself is not a copy.

    Args:
        unit: Its number.
        keys: [rows] uint64 of the unit.
        sidecars: All units.
        repeats: What is repeated.
    """
    own, rows = sidecars.rows_of(unit, repeats.records)
    extra = repeats.extra[own]
    row = np.repeat(rows, extra)
    number = np.arange(len(row)) - np.repeat(np.cumsum(extra) - extra, extra) + 1
    return row, copy_keys(keys[row], number)


def sorted_partitions(
    sidecars: Sidecars,
    assignment: Assignment,
    repeats: Repeats,
    splits: Sequence[SplitKeys],
    partition_rows: int,
) -> Iterator[Rows]:
    """All kept rows in key order, a range of keys at a time."""
    starts = _range_starts(splits, partition_rows)
    with closing(sidecars.partitions(_ROW, len(starts))) as partitions:
        for unit, table in sidecars:
            split_of = assignment.unit(unit)
            row, key = kept_rows(unit, uint64(table["key"]), split_of, sidecars, repeats)
            rows = np.empty(len(row), _ROW)
            rows["key"], rows["split"], rows["unit"], rows["row"] = key, split_of[row], unit, row
            partitions.add(np.searchsorted(starts, key, side="right") - 1, rows)
        for partition in partitions.take():
            others = (partition[name].astype(np.int64) for name in Rows._fields[1:])
            ranged = Rows(partition["key"], *others)
            order = _order(ranged, sidecars)
            yield Rows._make(column[order] for column in ranged)


def kept_rows(
    unit: int, keys: UInt64Array, split_of: Any, sidecars: Sidecars, repeats: Repeats
) -> tuple[IntArray, UInt64Array]:
    """(row, key) of the records of a unit that are in a split, and of their copies.

    Args:
        unit: Its number.
        keys: [rows] uint64 of the unit.
        split_of: [rows] of the unit.
        sidecars: All units.
        repeats: What is repeated.
    """
    copied, copy_key = copies_of(unit, keys, sidecars, repeats)
    kept = np.flatnonzero(split_of != LEFT_OUT)
    return np.concatenate((kept, copied)), np.concatenate((keys[kept], copy_key))


def _range_starts(splits: Sequence[SplitKeys], partition_rows: int) -> UInt64Array:
    """Where ranges of the key space begin that have about `partition_rows` records each."""
    histogram = np.sum([split.keys.histogram for split in splits], axis=0)
    shift = 64 - (len(histogram).bit_length() - 1)
    partition = np.cumsum(histogram) // partition_rows
    first_bins = np.flatnonzero(np.diff(partition, prepend=-1))
    starts = first_bins.astype(np.uint64) << np.uint64(shift)
    starts[:1] = 0
    return starts


def _order(rows: Rows, sidecars: Sidecars) -> IntArray:
    """The order of the rows by (key, record id)."""
    order = np.argsort(rows.key, kind="stable")
    keys = rows.key[order]
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    if len(equal):
        # Some 64-bit keys collide. Only then are record ids needed, and only of those rows.
        for start in equal.tolist():
            if start and keys[start - 1] == keys[start]:
                continue  # in a run that was sorted at its first row
            end = start + int(np.searchsorted(keys[start:], keys[start], side="right"))
            tied = order[start:end]
            ids = [_record_id(sidecars, rows, position) for position in tied.tolist()]
            order[start:end] = tied[sorted(range(len(ids)), key=ids.__getitem__)]
    return order


def _record_id(sidecars: Sidecars, rows: Rows, position: int) -> str:
    table = sidecars.table(int(rows.unit[position]))
    return str(table["record_id"][int(rows.row[position])].as_py())
