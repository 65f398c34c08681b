"""Ids that several records have, which a column of --id-column may hold.

Duplicates, removal and appending name records by their ids, so that no two may have the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, repeated, uint64
from beam_jobs.dedup.exact import HEADS, range_of
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars
from shard_format import InputError


def check_ids(sidecars: Sidecars, column: str, rows: int) -> None:
    """Checks that no two records of a corpus have the same id.

    Args:
        sidecars: All staged units.
        column: Name of the column of the ids, for the message.
        rows: About how many records are compared at a time.

    Raises:
        InputError: Two have.
    """
    number = -(-sidecars.records // rows)
    with closing(sidecars.partitions(HEADS, number)) as partitions:
        for heads in id_heads(sidecars):
            partitions.add(range_of(heads["head"], number), heads)
        for heads in partitions.take() if number else ():
            compare_ids(heads, column, lambda records: sidecars.take(records, ["record_id"]))


def id_heads(sidecars: Sidecars) -> Iterator[StructuredArray]:
    """Rows of HEADS, with hashes of the ids, of all records that are to be planned."""
    for begin, table in sidecars.without_progress():
        rows = np.empty(len(table), HEADS)
        rows["head"] = uint64(table["id_hash"])
        rows["record"] = np.arange(begin, begin + len(table))
        yield rows[sidecars.included(begin, table)]


def compare_ids(
    heads: StructuredArray, column: str, rows_of: Callable[[IntArray], pa.Table]
) -> None:
    """Checks that no two of some records have the same id.

    Args:
        heads: Rows of HEADS; all with the same hash are among them.
        column: Name of the column of the ids, for the message.
        rows_of: From numbers of records, ascending, to their "record_id".

    Raises:
        InputError: Two have.
    """
    alike = heads["record"][repeated(heads["head"])]
    if not len(alike):
        return
    times = pc.value_counts(rows_of(np.sort(alike))["record_id"].combine_chunks())
    again = times.filter(pc.greater(times.field("counts"), 1))
    if len(again):  # and not two ids with the same hash
        first = min(again.to_pylist(), key=lambda one: str(one["values"]))
        raise InputError(
            f"{first['counts']:,} records have the id {first['values']!r}. --id-column {column!r} "
            "must have another value for every record of SRC. Name another column, or leave it out."
        )
