"""Exact duplicates: records with equal fingerprints.

The fingerprint space is processed in partitions, so memory has a bound; the result grows with the
number of duplicates, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, fixed_bytes, repeated, run_starts
from beam_jobs.staging.sidecars import PARTITION_ROWS, Sidecars

# [n, 2] int64: numbers of two equal records.
Pairs = IntArray

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
    partitions = -(-sidecars.records // partition_rows)
    parts = [
        _equal(_full(sidecars, _repeated(sidecars, partition, partitions), confirm))
        for partition in range(partitions)
    ]
    return np.concatenate([*parts, np.zeros((0, 2), np.int64)])


def _repeated(sidecars: Sidecars, partition: int, partitions: int) -> IntArray:
    """Records whose first 64 fingerprint bits occur more than once.

    Few records remain, so the next steps may be slower.
    """
    heads: list[npt.NDArray[np.uint64]] = []
    records: list[IntArray] = []
    for unit, table in sidecars:
        head = fixed_bytes(table["fingerprint"], 16).view(np.uint64)[:, 0]
        inside = np.flatnonzero(head % np.uint64(partitions) == partition)
        heads.append(head[inside])
        records.append(inside + sidecars.begins[unit])
    return np.concatenate(records)[repeated(np.concatenate(heads))]


def _full(
    sidecars: Sidecars, records: IntArray, confirm: Confirm | None
) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """The records with their whole fingerprints, confirmed where the record type asks for it."""
    fingerprints = fixed_bytes(sidecars.take(records, ["fingerprint"])["fingerprint"], 16)
    if confirm is not None:
        pairs = _equal((records, fingerprints))
        records = np.unique(pairs)
        fingerprints = confirm(records)
    return records, fingerprints


def _equal(found: tuple[IntArray, npt.NDArray[np.uint8]]) -> Pairs:
    """Pairs of neighbours with equal fingerprints, once sorted by these."""
    records, fingerprints = found
    halves = np.ascontiguousarray(fingerprints).view(np.uint64)
    order = np.lexsort(halves.T)
    again = np.flatnonzero(~run_starts(*halves[order].T))
    return records[order[np.stack([again - 1, again], axis=1)]]
