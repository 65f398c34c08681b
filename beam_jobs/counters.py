"""Counters: what a shard counts while it is written, summed over shards at commit.

Counters are a table of (what, value, count): how often something had a value. Counts are integers,
so their sums depend neither on the order of shards nor on their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, int64

COUNTER_SCHEMA = pa.schema(
    [
        pa.field("what", pa.string(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
    ]
)


class Counts(NamedTuple):
    """How often each value occurred; [n] int64 both, values ascending."""

    values: IntArray
    counts: IntArray

    @property
    def total(self) -> int:
        """The sum of all values, each as often as it occurred."""
        return int((self.values * self.counts).sum())


def count_values(what: str, values: IntArray) -> pa.Table:
    """How often each value occurs."""
    return count(what, *np.unique(values, return_counts=True))


def count(what: str, values: IntArray, counts: IntArray) -> pa.Table:
    """Values that were counted already; those with a count of 0 are left out."""
    some = counts > 0
    columns = [pa.array([what] * int(some.sum()), pa.string()), values[some], counts[some]]
    return pa.table(columns, schema=COUNTER_SCHEMA)


def count_once(what: str, value: int, times: int) -> pa.Table:
    """One value that was counted already."""
    return count(what, np.array([value], np.int64), np.array([times], np.int64))


def sum_counters(counters: Iterable[pa.Table]) -> pa.Table:
    """The sum of counters, of which one at a time is in memory."""
    total = COUNTER_SCHEMA.empty_table()
    for one in counters:
        grouped = pa.concat_tables([total, one]).group_by(["what", "value"], use_threads=False)
        total = grouped.aggregate([("count", "sum")]).rename_columns(COUNTER_SCHEMA.names)
        total = total.cast(COUNTER_SCHEMA)
    return total.sort_by([("what", "ascending"), ("value", "ascending")])


def counts_of(counters: pa.Table, what: str) -> Counts:
    """The counts of one thing."""
    own = counters.filter(pc.equal(counters["what"], what))
    return Counts(int64(own["value"]), int64(own["count"]))
