"""Exact duplicates: records with equal fingerprints.

The fingerprint space is processed in partitions, so memory has a bound; the result grows with the
number of duplicates, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, fixed_bytes, repeated, run_starts
from beam_jobs.staging.reordering import rows_of_partition
from beam_jobs.staging.sidecars import Sidecars

# [n, 2] int64: numbers of two equal records.
Pairs = IntArray
NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)

# The first 64 bits of a fingerprint, and whose it is.
_HEADS = np.dtype([("head", np.uint64), ("record", np.int64)])

# From numbers of records to [n, 16] uint8 that are equal for exact duplicates only.
Confirm = Callable[[IntArray], npt.NDArray[np.uint8]]


def exact_pairs(
    sidecars: Sidecars, confirm: Confirm | None = None, rows: int | None = None
) -> Pairs:
    """Pairs of records with equal fingerprints that connect each set of them.

    Args:
        sidecars: All staged units.
        confirm: Decides where equal fingerprints do not suffice.
        rows: About how many are compared at a time; None for as many as suit the corpus.
    """
    number = num_partitions(sidecars, rows)
    return np.concatenate([NO_PAIRS, *exact_pairs_by_partition(sidecars, confirm, number)])


def num_partitions(sidecars: Sidecars, rows: int | None = None) -> int:
    """How many partitions of about so many rows there are; None for as many as suit the corpus."""
    return -(-sidecars.records // (rows or rows_of_partition(sidecars.records)))


def exact_pairs_by_partition(
    sidecars: Sidecars, confirm: Confirm | None, number: int
) -> Iterator[Pairs]:
    """`exact_pairs`, in parts that have no record in common.

    Args:
        sidecars: All staged units.
        confirm: See `exact_pairs`.
        number: Number of partitions.
    """
    for records in _repeated(sidecars, number):
        fingerprints = fixed_bytes(sidecars.take(records, ["fingerprint"])["fingerprint"], 16)
        if confirm is not None:
            records = np.unique(_equal(records, fingerprints))
            fingerprints = confirm(records)
        yield _equal(records, fingerprints)


def _repeated(sidecars: Sidecars, number: int) -> Iterator[IntArray]:
    """Records whose first 64 fingerprint bits occur more than once, of each partition of these.

    Few records remain, so the next steps may be slower.
    """
    with closing(sidecars.partitions(_HEADS, number)) as partitions:
        for unit, table in sidecars:
            rows = np.empty(len(table), _HEADS)
            rows["head"] = fixed_bytes(table["fingerprint"], 16).view(np.uint64)[:, 0]
            rows["record"] = np.arange(sidecars.begins[unit], sidecars.begins[unit + 1])
            rows = rows[sidecars.included(unit)]
            partitions.add((rows["head"] % np.uint64(number)).astype(np.int64), rows)
        for rows in partitions.take():
            yield rows["record"][repeated(rows["head"])]


def _equal(records: IntArray, fingerprints: npt.NDArray[np.uint8]) -> Pairs:
    """Pairs of neighbours with equal fingerprints, once sorted by these."""
    halves = np.ascontiguousarray(fingerprints).view(np.uint64)
    order = np.lexsort(halves.T)
    again = np.flatnonzero(~run_starts(*halves[order].T))
    return records[order[np.stack([again - 1, again], axis=1)]]
