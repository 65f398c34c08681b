"""Shuffle keys: where shards begin, and all kept records in key order, a range at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.plan.balance import Balance, copy_keys
from beam_jobs.stages.plan.quantiles import Quantiles
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array


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

    @property
    def records(self) -> int:
        """Records and copies counted so far."""
        return int(self.keys.counts[0])

    def cut(self, num_shards: int) -> None:
        """Chooses the number of shards n; shard i begins at rank floor(i * records / n).

        So shards differ by at most one record at any size. Two records with the same 64-bit key go
        to the same shard; with 16 million records that happens once in 131,000 builds, and matters
        only at a boundary.
        """
        self.keys.choose([np.arange(1, num_shards, dtype=np.int64) * self.records // num_shards])

    def begins(self) -> UInt64Array:
        """[num_shards - 1] uint64: the first key of every shard but the first, ascending."""
        return self.keys.keys()[0]


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


def sorted_partitions(
    sidecars: Sidecars,
    assignment: Assignment,
    balance: Balance | None,
    splits: Sequence[SplitKeys],
    partition_rows: int,
) -> Iterator[Rows]:
    """All kept rows in key order, a range of keys at a time."""
    starts = _range_starts(splits, partition_rows)
    with closing(sidecars.partitions(_ROW, len(starts))) as partitions:
        for begin, table in sidecars:
            split_of = assignment.of(begin, table)
            row, key = kept_rows(table, split_of, balance)
            rows = np.empty(len(row), _ROW)
            rows["key"], rows["split"] = key, split_of[row]
            rows["unit"], first = sidecars.place_of(begin)
            rows["row"] = first + row
            partitions.add(np.searchsorted(starts, key, side="right") - 1, rows)
        for partition in partitions.take():
            others = (partition[name].astype(np.int64) for name in Rows._fields[1:])
            ranged = Rows(partition["key"], *others)
            order = _order(ranged, sidecars)
            yield Rows._make(column[order] for column in ranged)


def kept_rows(
    table: pa.Table, split_of: npt.NDArray[np.int8], balance: Balance | None
) -> tuple[IntArray, UInt64Array]:
    """(row, key) of the records of some rows that are in a split, then of their copies.

    Args:
        table: The rows of a sidecar.
        split_of: [rows] the split of each.
        balance: How often records occur; None for once.
    """
    keys = uint64(table["key"])
    kept = np.flatnonzero(split_of != LEFT_OUT)
    if balance is None:
        return kept, keys[kept]
    extra = balance.occurrences(table, split_of)[kept] - 1
    row = np.repeat(kept, extra)
    number = np.arange(len(row)) - np.repeat(np.cumsum(extra) - extra, extra) + 1
    return np.concatenate((kept, row)), np.concatenate((keys[kept], copy_keys(keys[row], number)))


def _range_starts(splits: Sequence[SplitKeys], partition_rows: int) -> UInt64Array:
    """Where ranges of the key space begin that have about `partition_rows` records each."""
    histogram = np.sum([split.keys.histogram[0] for split in splits], axis=0)
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
