"""Exact duplicates: records with equal fingerprints.

The fingerprint space is processed in partitions, so memory has a bound; the result grows with the
number of duplicates, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, fixed_bytes, repeated, run_starts
from beam_jobs.staging.sidecars import PARTITION_ROWS, Sidecars

# [n, 2] int64: numbers of two equal records.
Pairs = IntArray
NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)

# The first 64 bits of a fingerprint, and whose it is.
_HEADS = np.dtype([("head", np.uint64), ("record", np.int64)])

# From numbers of records to [n, 16] uint8 that are equal for exact duplicates only.
Confirm = Callable[[IntArray], npt.NDArray[np.uint8]]


def exact_pairs(
    sidecars: Sidecars, confirm: Confirm | None = None, partition_rows: int = PARTITION_ROWS
) -> Pairs:
    """Pairs of records with equal fingerprints that connect each set of them.

    Args:
        sidecars: All staged units.
        confirm: Decides where equal fingerprints do not suffice.
        partition_rows: About how many rows are compared at a time.
    """
    pairs = [NO_PAIRS]
    for records in _repeated(sidecars, -(-sidecars.records // partition_rows)):
        fingerprints = fixed_bytes(sidecars.take(records, ["fingerprint"])["fingerprint"], 16)
        if confirm is not None:
            records = np.unique(_equal(records, fingerprints))
            fingerprints = confirm(records)
        pairs.append(_equal(records, fingerprints))
    return np.concatenate(pairs)


def _repeated(sidecars: Sidecars, number: int) -> Iterator[IntArray]:
    """Records whose first 64 fingerprint bits occur more than once, of each partition of these.

    Few records remain, so the next steps may be slower.
    """
    with sidecars.partitions(_HEADS, number) as partitions:
        for unit, table in sidecars:
            rows = np.empty(len(table), _HEADS)
            rows["head"] = fixed_bytes(table["fingerprint"], 16).view(np.uint64)[:, 0]
            rows["record"] = np.arange(sidecars.begins[unit], sidecars.begins[unit + 1])
            partitions.add((rows["head"] % np.uint64(number)).astype(np.int64), rows)
        for rows in partitions.take():
            yield rows["record"][repeated(rows["head"])]


def _equal(records: IntArray, fingerprints: npt.NDArray[np.uint8]) -> Pairs:
    """Pairs of neighbours with equal fingerprints, once sorted by these."""
    halves = np.ascontiguousarray(fingerprints).view(np.uint64)
    order = np.lexsort(halves.T)
    again = np.flatnonzero(~run_starts(*halves[order].T))
    return records[order[np.stack([again - 1, again], axis=1)]]
