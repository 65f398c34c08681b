"""Near duplicates among pictures, by the perceptual hashes and thumbnails in the sidecars."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, fixed_bytes
from beam_jobs.dedup.clusters import Links
from beam_jobs.dedup.images.clusters import near_pairs
from beam_jobs.dedup.images.hash_format import HASH_BYTES, THUMBNAIL_BYTES
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.sidecars import Sidecars


def similar_pictures(sidecars: Sidecars, records: IntArray, options: PreprocessOptions) -> Links:
    """Near duplicates among some records.

    Args:
        sidecars: All staged units.
        records: [n] int64, numbers of records, ascending; of exact duplicates one is among them.
        options: The job.
    """
    hashes = np.empty((len(records), HASH_BYTES), np.uint8)
    for unit, table in sidecars:
        first, last = np.searchsorted(records, sidecars.begins[unit : unit + 2])
        rows = records[first:last] - sidecars.begins[unit]
        hashes[first:last] = fixed_bytes(table["perceptual_hash"], HASH_BYTES)[rows]

    def thumbnails(rows: IntArray) -> npt.NDArray[np.uint8]:
        column = sidecars.take(records[rows], ["thumbnail"])["thumbnail"]
        return fixed_bytes(column, THUMBNAIL_BYTES)

    threads = options.workers or os.cpu_count() or 1
    found = near_pairs(hashes, thumbnails, options.near_threshold, threads)
    return Links(records[found.pairs], found.similarity)
