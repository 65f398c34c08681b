"""Exact duplicates: records with equal fingerprints.

The fingerprint space is processed in partitions, so memory has a bound; the result grows with the
number of duplicates, not with the corpus.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, fixed_bytes
from beam_jobs.staging.sidecars import PARTITION_ROWS, Sidecars

# [n, 2] int64: numbers of two equal records.
Pairs = IntArray
NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)

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
    return np.concatenate([*parts, NO_PAIRS])


def _repeated(sidecars: Sidecars, partition: int, partitions: int) -> IntArray:
    """Records whose first 64 fingerprint bits occur more than once.

    Few records remain, so the next steps may be slower.
    """
    heads: list[npt.NDArray[np.uint64]] = []
    records: list[IntArray] = []
    for unit, table in sidecars:
        head = _head(fixed_bytes(table["fingerprint"], 16))
        inside = np.flatnonzero(head % np.uint64(partitions) == partition)
        heads.append(head[inside])
        records.append(inside + sidecars.begins[unit])
    head = np.concatenate(heads)
    order = np.argsort(head)
    head = head[order]
    equal = np.flatnonzero(head[1:] == head[:-1])
    repeated = np.zeros(len(head), bool)
    repeated[equal] = repeated[equal + 1] = True
    return np.concatenate(records)[order[repeated]]


def _head(fingerprints: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(fingerprints[:, :8]).view(np.uint64)[:, 0]


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
    """Pairs of neighbours with equal fingerprints, in the order of fingerprints."""
    records, fingerprints = found
    if not len(records):
        return NO_PAIRS
    table = pa.table(
        {
            "record": records,
            "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), len(records), [None, pa.py_buffer(fingerprints.tobytes())]
            ),
        }
    ).sort_by("fingerprint")
    ordered = fixed_bytes(table["fingerprint"], 16)
    numbers = np.asarray(table["record"].to_numpy(), np.int64)
    same = np.flatnonzero(np.all(ordered[1:] == ordered[:-1], axis=1))
    return np.stack([numbers[same], numbers[same + 1]], axis=1)
