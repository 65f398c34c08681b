"""Candidate pairs: documents whose signatures agree in all rows of a band.

Leskovec, Rajaraman, Ullman: Mining of Massive Datasets, 3rd edition, section 3.4: two sets of
Jaccard similarity s agree in some of b bands of r rows with probability 1 - (1 - s**r)**b.

In a bucket (the documents with one key of a band), each is paired with the first documents of the
bucket and with the next ones, so the number of pairs is linear in that of documents, however many
share a bucket. A bucket is sorted by the key of another band, so that documents which share both
are neighbours, and then by fingerprint: an order of content alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, first_of_run, ranges, run_starts
from beam_jobs.dedup.text.signatures import SIGNATURE
from beam_jobs.staging.reordering import StructuredArray
from shard_format import mix

# At the threshold itself; above it recall rises fast.
LEAST_RECALL = 0.99
# With how many of the first and of the next documents of its bucket each is paired. Buckets of up
# to 6 are compared as a whole.
LEADERS = 2
NEIGHBOURS = 4
# A document among those that share a key of a band with others: the key, that of the next band, the
# first 64 bits of its fingerprint, its record, and its number of shingles.
BUCKET_ROWS = np.dtype(
    [
        ("key", np.uint64),
        ("tie_break", np.uint64),
        ("fingerprint", np.uint64),
        ("record", np.int64),
        ("size", np.int64),
    ]
)
# With how many documents of earlier generations that share a bucket.
ACROSS = LEADERS + NEIGHBOURS


class Bands(NamedTuple):
    """How a signature is divided.

    Attributes:
        bands: How many there are.
        rows: Places of a signature in each.
    """

    bands: int
    rows: int

    def recall(self, similarity: float) -> float:
        """The probability that two documents of this similarity agree in a band."""
        return float(1 - (1 - similarity**self.rows) ** self.bands)


def choose_bands(threshold: float) -> Bands:
    """The longest bands that still find 99 % of the pairs at the threshold.

    Longer bands find fewer pairs below the threshold: 21 bands of 6 rows (for 0.8) find 0.998 of
    the pairs of similarity 0.8, 0.28 of those of 0.5, and 0.00002 of those of 0.1.

    Args:
        threshold: From 0.04 on: lower, 128 places cannot find such pairs.
    """
    cuts = (Bands(SIGNATURE // rows, rows) for rows in range(SIGNATURE, 0, -1))
    return next(cut for cut in cuts if cut.recall(threshold) >= LEAST_RECALL)


def band_keys(signatures: npt.NDArray[np.uint32], cut: Bands, band: int) -> npt.NDArray[np.uint64]:
    """[n] a hash of one band of [n, SIGNATURE] signatures."""
    keys = np.full(len(signatures), band, np.uint64)
    for place in range(band * cut.rows, (band + 1) * cut.rows):
        keys = mix(keys ^ signatures[:, place])
    return keys


def pairs_across(new: npt.NDArray[np.uint64], old: npt.NDArray[np.uint64]) -> IntArray:
    """[k, 2] pairs (row of `new`, row of `old`) with equal keys; of each new row at most ACROSS.

    Args:
        new: [n] keys of a band, few.
        old: [m] keys of the same band.
    """
    order = np.argsort(new, kind="stable")
    at = np.minimum(np.searchsorted(new[order], old), max(0, len(new) - 1))
    rows = np.flatnonzero(new[order][at] == old) if len(new) else np.zeros(0, np.int64)
    rows = rows[np.argsort(old[rows], kind="stable")]
    first = np.searchsorted(old[rows], new, side="left")
    sizes = np.minimum(np.searchsorted(old[rows], new, side="right") - first, ACROSS)
    places, which = ranges(first, sizes)
    return np.stack([which, rows[places]], axis=1)


def bucket_pairs(rows: StructuredArray) -> IntArray:
    """[k, 2] pairs of rows with equal keys, in no particular order; each at most once.

    Args:
        rows: [n] BUCKET_ROWS of a band.
    """
    order = np.lexsort((rows["record"], rows["fingerprint"], rows["tie_break"], rows["key"]))
    keys = rows["key"][order]

    begin = first_of_run(run_starts(keys))
    place = np.arange(len(keys)) - begin
    # (the one before, the one behind), as positions
    pairs = [(begin + leader, place > leader) for leader in range(LEADERS)]
    pairs += [
        (np.arange(len(keys)) - step, place - step >= LEADERS) for step in range(1, NEIGHBOURS + 1)
    ]
    return np.concatenate(
        [np.stack([order[one[is_one]], order[is_one]], 1) for one, is_one in pairs]
    )
