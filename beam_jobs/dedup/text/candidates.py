"""Which documents are worth a second look: those that meet in a bucket of a band.

In a bucket, each is paired with the first ones of it and with those that come next, so the number
of pairs is linear in that of documents, however many share a bucket. A bucket is in the order of
another band, so that those which share two of them are neighbours, and then of fingerprints: an
order of content alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray

# The first of a bucket that all others are compared with, and the next ones that each is. Buckets
# of up to 6 are compared as a whole.
LEADERS = 2
NEIGHBOURS = 4


def bucket_pairs(
    keys: npt.NDArray[np.uint64], tie_break: npt.NDArray[np.uint64], order: IntArray
) -> IntArray:
    """[k, 2] pairs of rows with one key, in no particular order; each at most once.

    Args:
        keys: [n] of the band.
        tie_break: [n] keys of another band.
        order: [n] all rows in an order of content.
    """
    keys = keys[order]
    repeated = np.sort(keys)
    repeated = np.unique(repeated[1:][repeated[1:] == repeated[:-1]])
    if not len(repeated):
        return np.zeros((0, 2), np.int64)
    shared = repeated[np.minimum(np.searchsorted(repeated, keys), len(repeated) - 1)] == keys
    keys, rows = keys[shared], order[shared]
    placed = np.lexsort((tie_break[rows], keys))  # stable, so the order of content stands last
    keys, rows = keys[placed], rows[placed]

    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    begin = np.repeat(begins, np.diff([*begins, len(keys)]))
    place = np.arange(len(keys)) - begin
    # (the one before, the one behind), as positions
    pairs = [(begin + leader, place > leader) for leader in range(LEADERS)]
    pairs += [
        (np.arange(len(keys)) - step, place - step >= LEADERS) for step in range(1, NEIGHBOURS + 1)
    ]
    return np.concatenate([np.stack([rows[one[is_one]], rows[is_one]], 1) for one, is_one in pairs])
