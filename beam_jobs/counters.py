"""Counters and summaries of non-negative integers.

Counters are what a shard counts while it is written, summed over shards at commit. A summary is the
minimum, maximum, mean and histogram of a column.

Counters are a table of (what, value, count): how often something had a value. Counts are integers,
so their sums depend neither on the order of shards nor on their number.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs import bounds
from beam_jobs.columns import Columns, IntArray, int64

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


# 0, 1, 2, 4, 5, 8, 11, ...: the integer parts of powers of the root of 2, up to 2**62.
_EDGES = np.array([0, *sorted({math.isqrt(1 << power) for power in range(125)})], np.int64)


class Sums(abc.ABC):
    """What is summed over the rows of an index.

    Parts of an index can be summed apart, since all sums are integers: neither the parts nor their
    order have an effect on what becomes of them.
    """

    @abc.abstractmethod
    def add(self, rows: pa.Table) -> None:
        """Adds rows of the index."""

    @abc.abstractmethod
    def values(self) -> Any:
        """The sums so far, as JSON has them."""

    @abc.abstractmethod
    def merge(self, values: Any) -> None:
        """Adds the `values` of other rows."""

    @abc.abstractmethod
    def statistics(self) -> dict[str, Any]:
        """What the manifest says of all rows, by name."""


class ColumnSums(Sums):
    """Range, sum and histogram of a column of non-negative integers, without its nulls.

    Args:
        name: Name of the column.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._least, self._most, self._total = int(_EDGES[-1]), 0, 0
        self._in_bins = np.zeros(len(_EDGES), np.int64)

    @override
    def add(self, rows: pa.Table) -> None:
        for chunk in rows[self._name].chunks:
            for start in range(0, len(chunk), bounds.SUMMARIZED_ROWS):
                part = chunk.slice(start, bounds.SUMMARIZED_ROWS).drop_null()
                if len(part):
                    self._add(np.asarray(part.to_numpy(zero_copy_only=False), np.int64))

    def _add(self, values: IntArray) -> None:
        bins = np.searchsorted(_EDGES, values, side="right") - 1
        self._in_bins += np.bincount(bins, minlength=len(_EDGES))
        self._least = min(self._least, int(values.min()))
        self._most = max(self._most, int(values.max()))
        self._total += int(values.sum())

    @override
    def values(self) -> list[Any]:
        return [self._least, self._most, self._total, self._in_bins.tolist()]

    @override
    def merge(self, values: list[Any]) -> None:
        least, most, total, in_bins = values
        self._least, self._most = min(self._least, least), max(self._most, most)
        self._total += total
        self._in_bins += np.array(in_bins, np.int64)

    @override
    def statistics(self) -> dict[str, Any]:
        return {self._name: self.summary()}

    def summary(self) -> dict[str, Any]:
        """As `summarize` of all values."""
        if not self._in_bins.any():
            return {}
        return _summary(self._least, self._most, self._total, self._in_bins)


def summarize_column(columns: Columns, name: str) -> dict[str, Any]:
    """`summarize` of a column of integers, without its nulls; some rows are in memory at a time."""
    sums = ColumnSums(name)
    for table in columns([name]):
        sums.add(table)
    return sums.summary()


def summarize(values: IntArray, counts: IntArray | None = None) -> dict[str, Any]:
    """{"min", "max", "mean", "histogram"}; empty without values.

    Bins are half octaves, with integer edges that do not depend on the data, so that the histograms
    of two sets can be added and compared: bin i counts edges[i] <= value < edges[i + 1].

    Args:
        values: [n] int64.
        counts: [n] int64, how often each value occurs, at least 1; None if all occur once.
    """
    if not len(values):
        return {}
    counts = np.ones(len(values), np.int64) if counts is None else counts
    in_bins = np.zeros(len(_EDGES), np.int64)
    np.add.at(in_bins, np.searchsorted(_EDGES, values, side="right") - 1, counts)
    return _summary(int(values.min()), int(values.max()), int((values * counts).sum()), in_bins)


def _summary(least: int, most: int, total: int, in_bins: IntArray) -> dict[str, Any]:
    """The summary of values of which each bin has so many."""
    first, last = np.flatnonzero(in_bins)[[0, -1]].tolist()
    return {
        "min": least,
        "max": most,
        "mean": total / int(in_bins.sum()),
        "histogram": {
            "edges": _EDGES[first : last + 2].tolist(),
            "counts": in_bins[first : last + 1].tolist(),
        },
    }
