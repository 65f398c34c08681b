"""The records with the highest values of a column: --top, of all or of each class.

Which value is the last of the top takes two passes, as any quantile; of the records that have it, a
hash of the id decides, which takes two more. So the choice depends neither on the seed nor on the
order of reading, and is exact: of n records with a value, --top 10% keeps n / 10, rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import BoolArray, IntArray, uint64
from beam_jobs.job_context import JobContext
from beam_jobs.options.values import parse_top
from beam_jobs.selection import number_column
from beam_jobs.stages.labels import class_counts, label_numbers, sorted_names
from beam_jobs.stages.plan.left_out import LeftOutExamples
from beam_jobs.stages.plan.quantiles import Quantiles, class_bits
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.sidecars import Sidecars
from shard_format.keys import UInt64Array, mix

NOT_IN_TOP = "not-in-top"  # the reason in the ledger

_TOP_STREAM = np.uint64(0x544F50)  # "TOP"
_SIGN = np.uint64(1 << 63)
_ALL = np.iinfo(np.uint64).max


class Top(NamedTuple):
    """Which records are in the top, as far as it is decided.

    What follows is done twice, until it is: the `keys` of all records are counted, places among
    them chosen, those near the places collected, and a part is decided.

    Attributes:
        size: The value of --top.
        name: The column that --by names.
        column: The same in a sidecar.
        class_names: With --top-per label, the classes; records without one are another group.
        last: [groups] the key of the last value that is in the top; empty before it is known.
        ties: [groups] how many of the records with that value are.
        below: [groups] of these, those with a lower hash are.
    """

    size: str
    name: str
    column: str
    class_names: list[str] | None
    last: Sequence[int] = ()
    ties: Sequence[int] = ()
    below: Sequence[int] = ()

    def quantiles(self, records: int) -> Quantiles:
        """Where the keys of so many records are counted."""
        groups = 1 if self.class_names is None else len(self.class_names) + 1
        return Quantiles(class_bits(records, groups), groups)

    def keys(
        self, assignment: Assignment, sidecars: Sidecars
    ) -> Iterator[tuple[UInt64Array, IntArray]]:
        """(keys, groups) of the records that are left and have a value, part by part.

        Once the last value is known: the hashes of those that have it.
        """
        for begin, table in sidecars.without_progress():
            rows, values, groups = self._ranked(table, assignment.of(begin, table) != LEFT_OUT)
            if not len(self.last):
                yield values, groups
                continue
            tied = values == np.array(self.last, np.uint64)[groups]
            yield _hashes(table, rows[tied]), groups[tied]

    def choose(self, quantiles: Quantiles) -> None:
        """Sets the place of the last value of each group, or of the first hash behind the top."""
        counts = quantiles.counts.tolist()
        places = [[own] if own < of else [] for own, of in zip(self.ties, counts, strict=False)]
        if not len(self.last):
            most = parse_top(self.size)
            sizes = [
                min(of, most) if isinstance(most, int) else math.ceil(most * of) for of in counts
            ]
            places = [[size - 1] if size else [] for size in sizes]
        quantiles.choose([np.array(own, np.int64) for own in places])

    def decided(self, quantiles: Quantiles) -> Top:
        """With what follows from the keys near these places."""
        if len(self.last):
            below = [int(key[0]) if len(key) else _ALL for key in quantiles.keys()]
            return self._replace(below=below)
        last, ties = [], []
        for places, keys, before in quantiles.at_places():  # no place: the group has no value
            last.append(int(keys[0]) if len(places) else 0)
            ties.append(int(places[0] + 1 - before[0]) if len(places) else 0)
        return self._replace(last=last, ties=ties)

    def leave_out(self, assignment: Assignment, sidecars: Sidecars) -> tuple[int, LeftOutExamples]:
        """Takes all other records out of their split; their number, and examples."""
        last, below = np.array(self.last, np.uint64), np.array(self.below, np.uint64)
        count, examples = 0, LeftOutExamples({self.name: self.column})
        for begin, table in sidecars.without_progress():
            split_of = assignment.of(begin, table)
            left = split_of != LEFT_OUT
            rows, values, groups = self._ranked(table, left)
            tied = (values == last[groups]) & (_hashes(table, rows) < below[groups])
            left[rows[(values < last[groups]) | tied]] = False
            split_of[left] = LEFT_OUT
            examples.add(begin, table, left)
            count += int(left.sum())
        return count, examples

    def _ranked(self, table: pa.Table, left: BoolArray) -> tuple[IntArray, UInt64Array, IntArray]:
        """(rows, keys that are lower for higher values, groups) of the rows that have a value."""
        values = np.asarray(table[self.column].cast(pa.float64()).to_numpy(), np.float64)
        rows = np.flatnonzero(left & ~np.isnan(values))  # NaN for null
        bits = (values[rows] + 0.0).view(np.uint64)  # 0.0 for -0.0
        keys = np.where(bits & _SIGN, bits, ~bits ^ _SIGN)
        groups = np.zeros(len(rows), np.int64)
        if self.class_names is not None:
            groups = label_numbers(table["label"], self.class_names)[rows]
            groups[groups < 0] = len(self.class_names)
        return rows, keys, groups


def top_of(context: JobContext, classes: Counter[str]) -> Top:
    """The top that the options ask for.

    Args:
        context: The job.
        classes: Numbers of the records that are left, by class.
    """
    options = context.options
    name = options.by or ""
    column = number_column(context.record_type, options, name, "--by").name
    classes_of = sorted_names(classes) if options.top_per else None
    return Top(options.top or "", name, column, classes_of)


def leave_out_rest(
    assignment: Assignment, sidecars: Sidecars, context: JobContext
) -> tuple[int, list[dict[str, Any]]]:
    """Leaves out the records that are not in the top; the number of these, and examples.

    Args:
        assignment: Changed in place; records in a split are left so far.
        sidecars: All staged units.
        context: The job.
    """
    classes: Counter[str] = Counter()
    for begin, table in sidecars.without_progress() if context.options.top_per else ():
        left = pa.array(assignment.of(begin, table) != LEFT_OUT)
        classes += class_counts(table["label"].filter(left))
    top = top_of(context, classes)
    for _ in range(2):
        quantiles = top.quantiles(sidecars.records)
        for keys, groups in top.keys(assignment, sidecars):
            quantiles.count(keys, groups)
        top.choose(quantiles)
        for keys, groups in top.keys(assignment, sidecars):
            quantiles.collect_distinct(keys, groups)
        top = top.decided(quantiles)
    count, examples = top.leave_out(assignment, sidecars)
    return count, examples.described(sidecars)


def _hashes(table: pa.Table, rows: IntArray) -> UInt64Array:
    """The order of rows with equal values."""
    return mix(uint64(table["id_hash"])[rows] ^ _TOP_STREAM)
