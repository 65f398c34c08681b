"""All kept records in shuffle-key order, a range of keys at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from beam_jobs.columns import IntArray, uint64
from beam_jobs.stages.plan.balance import Repeats, copy_keys
from beam_jobs.stages.plan.boundaries import Quantiles
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array


@dataclasses.dataclass
class SplitKeys:
    """The keys and the size of a split, before its shards are cut.

    Attributes:
        name: Of the split.
        keys: The shuffle keys of its records and their copies.
        bytes: Of its records and their copies, as staged.
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
    """All kept rows in key order, a range of keys at a time.

    A unit is sorted by key, so a range of keys is one slice of it.
    """
    for start, end in _key_ranges(splits, partition_rows):
        parts = []
        for unit, table in sidecars:
            keys = uint64(table["key"])
            first, last = np.searchsorted(keys, np.array([start, end], np.uint64), side="left")
            last = len(keys) if end == _LAST_KEY else last
            row = np.arange(first, last)
            row = row[assignment.unit(unit)[first:last] != LEFT_OUT]
            copied, copy_key = copies_of(unit, keys, sidecars, repeats)
            inside = (copy_key >= start) & ((copy_key < end) | (end == _LAST_KEY))
            row = np.concatenate((row, copied[inside]))
            key = np.concatenate((keys[row[: len(row) - inside.sum()]], copy_key[inside]))
            split = assignment.unit(unit)[row].astype(np.int64)
            parts.append(Rows(key, split, np.full(len(row), unit), row))
        if parts:
            rows = Rows._make(map(np.concatenate, zip(*parts, strict=True)))
            order = _order(rows, sidecars)
            yield Rows._make(column[order] for column in rows)


_LAST_KEY = (1 << 64) - 1  # as the end of a range: up to and including it


def _key_ranges(splits: Sequence[SplitKeys], partition_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges [start, end) of the key space with about `partition_rows` records each."""
    histogram = np.sum([split.keys.histogram for split in splits], axis=0)
    shift = 64 - (len(histogram).bit_length() - 1)
    partition = np.cumsum(histogram) // partition_rows
    first_bins = np.flatnonzero(np.diff(partition, prepend=-1)).tolist()
    starts = [0, *(bin_number << shift for bin_number in first_bins[1:])]
    yield from zip(starts, [*starts[1:], _LAST_KEY], strict=True)


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
