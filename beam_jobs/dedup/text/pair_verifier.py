"""The exact Jaccard similarity of pairs of shingle sets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.shingles import Shingles

_PAIR = np.uint64(32)


def jaccard(sets: Shingles, pairs: IntArray) -> npt.NDArray[np.float64]:
    """[k] similarity of each pair; 0 where both sets are empty.

    Args:
        sets: Of n documents.
        pairs: [k, 2] int64 in [0, n); k < 2**32.
    """
    sizes = np.diff(sets.begins)[pairs]
    # Pair and hash in one number, first of one side, then of the other: each is sorted, and a
    # stable sort merges such runs instead of sorting them.
    merged = np.concatenate([_tagged(sets, pairs[:, side]) for side in (0, 1)])
    merged.sort(kind="stable")
    common = merged[1:][merged[1:] == merged[:-1]] >> _PAIR
    shared = np.bincount(common.astype(np.int64), minlength=len(pairs))
    return shared / np.maximum(sizes.sum(axis=1) - shared, 1)


def _tagged(sets: Shingles, rows: IntArray) -> npt.NDArray[np.uint64]:
    """The hashes of each row's set, with the number of the pair above them."""
    begins = sets.begins[rows]
    sizes = sets.begins[rows + 1] - begins
    pair = np.repeat(np.arange(len(rows)), sizes)
    ends = np.cumsum(sizes)
    at = np.arange(len(pair)) + (begins - (ends - sizes))[pair]
    return (pair.astype(np.uint64) << _PAIR) | sets.hashes[at]
