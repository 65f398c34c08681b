"""Exact duplicates: records with equal fingerprints.

The fingerprint space is processed in partitions, and what is repeated is sorted on disk, so memory
has a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import IntArray, fixed_bytes, int64, repeated, run_starts, uint64
from beam_jobs.staging.reordering import StructuredArray, rows_of_partition
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array

# [n, 2] int64: numbers of two equal records.
Pairs = IntArray
NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)

# The first 64 bits of a fingerprint, and whose it is.
HEADS = np.dtype([("head", np.uint64), ("record", np.int64)])

FINGERPRINT = pa.binary(16)

# From numbers of records to [n, 16] uint8 that are equal for exact duplicates only.
Confirm = Callable[[IntArray], npt.NDArray[np.uint8]]


# The order of `repeated_rows`, whose columns these are, besides those that are asked for.
BY_HEAD = ("head", "record")


def exact_pairs(
    sidecars: Sidecars, confirm: Confirm | None = None, rows: int | None = None
) -> Pairs:
    """Pairs of records with equal fingerprints that connect each set of them.

    Args:
        sidecars: All staged units.
        confirm: Decides where equal fingerprints do not suffice.
        rows: About how many are compared at a time; None for as many as suit the corpus.
    """
    parts = repeated_rows(sidecars, {"fingerprint": FINGERPRINT}, rows)
    return np.concatenate([NO_PAIRS, *(pairs_among(part, confirm) for part in parts)])


def pairs_among(rows: pa.Table, confirm: Confirm | None) -> Pairs:
    """The exact duplicates among rows of `repeated_rows`, as in `exact_pairs`."""
    records, fingerprints = int64(rows["record"]), fixed_bytes(rows["fingerprint"], 16)
    if confirm is not None:
        records = np.unique(_equal(records, fingerprints))
        fingerprints = confirm(records)
    return _equal(records, fingerprints)


def repeated_rows(
    sidecars: Sidecars, columns: Mapping[str, pa.DataType], rows: int | None = None
) -> Iterator[pa.Table]:
    """Rows whose first 64 fingerprint bits occur more than once, all with the same bits together.

    Every unit is opened twice, however large the corpus is: its fingerprints are partitioned, and
    what is repeated is looked up in the order of records, and then sorted.

    Args:
        sidecars: All staged units.
        columns: Columns of a sidecar with their types; "record" is the number of the record.
        rows: About how many are compared at a time; None for as many as suit the corpus.
    """
    number = -(-sidecars.records // (rows or rows_of_partition(sidecars.records)))
    with (
        closing(sidecars.partitions(HEADS, number)) as by_record,
        closing(sidecars.sorter(repeats_schema(columns), BY_HEAD)) as by_head,
    ):
        for repeats in _repeated(sidecars, number):
            by_record.add(repeats["record"] * number // sidecars.records, repeats)
        for repeats in by_record.take() if number else ():
            if len(repeats):
                repeats.sort(order="record")
                by_head.append(described(sidecars, repeats, columns))
        yield from whole_runs(by_head.in_order())


def repeats_schema(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of `repeated_rows` with these further ones."""
    place = (pa.field("head", pa.uint64()), pa.field("record", pa.int64()))
    return pa.schema([*place, *map(pa.field, columns, columns.values())])


def described(
    sidecars: Sidecars, repeats: StructuredArray, columns: Mapping[str, pa.DataType]
) -> pa.Table:
    """The rows of HEADS, in the order of records, with columns of their sidecars."""
    table = sidecars.take(repeats["record"], list(columns))
    for name in reversed(BY_HEAD):
        table = table.add_column(0, name, pa.array(repeats[name]))
    return table.cast(repeats_schema(columns))


def whole_runs(tables: Iterable[pa.Table], by: str = BY_HEAD[0]) -> Iterator[pa.Table]:
    """Sorted tables, cut where their first key changes, which is the head of a fingerprint.

    A part has `bounds.REPEATED_ROWS` or more: as many as the last key of these rows has.
    """
    rest = None
    for table in tables:
        joined = table if rest is None else pa.concat_tables([rest, table])
        heads = uint64(joined[by])
        last = int(np.searchsorted(heads, heads[-1]))
        start = 0
        while start < last:
            end_key = heads[min(start + bounds.REPEATED_ROWS, last) - 1]
            end = int(np.searchsorted(heads, end_key, side="right"))
            yield joined.slice(start, end - start)
            start = end
        rest = joined.slice(last)
    if rest is not None:
        yield rest


def heads_of(sidecars: Sidecars) -> Iterator[StructuredArray]:
    """Rows of HEADS of all records that are to be planned."""
    for begin, table in sidecars:
        rows = np.empty(len(table), HEADS)
        rows["head"] = fixed_bytes(table["fingerprint"], 16).view(np.uint64)[:, 0]
        rows["record"] = np.arange(begin, begin + len(table))
        yield rows[sidecars.included(begin, table)]


def range_of(heads: UInt64Array, number: int) -> IntArray:
    """[n] int64 in [0, number): the range of fingerprints that each head is in."""
    return (heads % np.uint64(number)).astype(np.int64)


def _repeated(sidecars: Sidecars, number: int) -> Iterator[StructuredArray]:
    """Rows of HEADS whose head occurs more than once, of each range of these."""
    with closing(sidecars.partitions(HEADS, number)) as partitions:
        for rows in heads_of(sidecars):
            partitions.add(range_of(rows["head"], number), rows)
        for rows in partitions.take() if number else ():
            yield rows[repeated(rows["head"])]


def _equal(records: IntArray, fingerprints: npt.NDArray[np.uint8]) -> Pairs:
    """Pairs of neighbours with equal fingerprints, once sorted by these."""
    halves = np.ascontiguousarray(fingerprints).view(np.uint64)
    order = np.lexsort(halves.T)
    again = np.flatnonzero(~run_starts(*halves[order].T))
    return records[order[np.stack([again - 1, again], axis=1)]]
