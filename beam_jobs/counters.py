"""What a shard counts while it is written, added up over shards when the set is committed.

A tally is a table of (what, value, count): how often something had a value. Counts are whole, so
their sums depend neither on the order of shards nor on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, int64

TALLY_SCHEMA = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)


class Counts(NamedTuple):
    """How often something had each value; [n] int64 both, values ascending."""

    values: IntArray
    counts: IntArray

    @property
    def total(self) -> int:
        """The sum of all values, each as often as it occurred."""
        return int((self.values * self.counts).sum())


def tally(what: str, values: IntArray) -> pa.Table:
    """How often each value occurs."""
    found, counts = np.unique(values, return_counts=True)
    return counted(what, found, counts)


def counted(what: str, values: IntArray, counts: IntArray) -> pa.Table:
    """Values that were counted already; those that occur never are left out."""
    some = counts > 0
    columns = [pa.array([what] * int(some.sum()), pa.string()), values[some], counts[some]]
    return pa.table(columns, schema=TALLY_SCHEMA)


def counted_once(what: str, value: int, count: int) -> pa.Table:
    """One value that was counted already."""
    return counted(what, np.array([value], np.int64), np.array([count], np.int64))


def added(tallies: Iterable[pa.Table]) -> pa.Table:
    """The sum of some tallies, one of them in memory at a time beside it."""
    total = TALLY_SCHEMA.empty_table()
    for one in tallies:
        grouped = pa.concat_tables([total, one]).group_by(["what", "value"], use_threads=False)
        total = grouped.aggregate([("count", "sum")]).rename_columns(TALLY_SCHEMA.names)
        total = total.cast(TALLY_SCHEMA)
    return total.sort_by([("what", "ascending"), ("value", "ascending")])


def counts_of(table: pa.Table, what: str) -> Counts:
    """What was counted of one thing."""
    own = table.filter(pc.equal(table["what"], what))
    return Counts(int64(own["value"]), int64(own["count"]))
