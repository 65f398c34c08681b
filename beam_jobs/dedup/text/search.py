"""Near duplicates among documents, by the MinHash signatures and shingles in the sidecars."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, fixed_bytes
from beam_jobs.dedup.clusters import Links
from beam_jobs.dedup.text.clusters import Documents, near_pairs
from beam_jobs.dedup.text.shingles import Shingles
from beam_jobs.dedup.text.signatures import SIGNATURE_BYTES
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.sidecars import Sidecars

# Each holds some 100 MiB, and little is left to confirm once candidates are found.
_MOST_THREADS = 8


def similar_texts(sidecars: Sidecars, records: IntArray, options: PreprocessOptions) -> Links:
    """Near duplicates among some records.

    Args:
        sidecars: All staged units.
        records: [n] int64, numbers of records, ascending; of exact duplicates one is among them.
        options: The job.
    """
    fingerprints = np.empty(len(records), np.uint64)
    sizes = np.empty(len(records), np.int32)
    for unit, table in sidecars:
        own, rows = _rows(sidecars, records, unit)
        heads = fixed_bytes(table["fingerprint"], 16)[rows, :8]
        fingerprints[own] = np.ascontiguousarray(heads).view("<u8")[:, 0]
        sizes[own] = pc.list_value_length(table["near_shingles"]).to_numpy()[rows]

    def signatures() -> Iterator[npt.NDArray[np.uint32]]:
        for unit in range(len(sidecars.keys)):
            _, rows = _rows(sidecars, records, unit)
            stored = fixed_bytes(sidecars.table(unit)["near_signature"], SIGNATURE_BYTES)
            yield stored.view("<u4")[rows]

    def shingles(rows: IntArray) -> Shingles:
        taken = sidecars.take(records[rows], ["near_shingles"])["near_shingles"]
        column = taken.combine_chunks()
        lengths = pc.list_value_length(column).to_numpy()
        begins = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
        return Shingles(column.flatten().to_numpy(), begins)

    documents = Documents(fingerprints, sizes, signatures, shingles)
    threads = min(options.workers or os.cpu_count() or 1, _MOST_THREADS)
    found = near_pairs(documents, options.near_threshold, threads)
    return Links(records[found.pairs], found.similarity)


def _rows(sidecars: Sidecars, records: IntArray, unit: int) -> tuple[slice, IntArray]:
    """Which of the records are in a unit, and their rows there."""
    first, last = np.searchsorted(records, sidecars.begins[unit : unit + 2]).tolist()
    return slice(first, last), records[first:last] - sidecars.begins[unit]
