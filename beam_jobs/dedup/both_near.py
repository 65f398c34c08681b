"""Records that are near duplicates in two ways at once."""

from __future__ import annotations

import numpy as np

from beam_jobs.dedup.clusters import NearPairs, connected


def near_in_both(one: NearPairs, other: NearPairs) -> NearPairs:
    """Pairs that connect the records which are in one cluster of both.

    The similarity is the least one of the first.
    """
    if not len(one.pairs) or not len(other.pairs):
        return NearPairs(one.pairs[:0], one.similarity[:0])
    records, roots = connected(one.pairs)
    others, other_roots = connected(other.pairs)
    common, at, at_other = np.intersect1d(records, others, return_indices=True)
    order = np.lexsort([common, other_roots[at_other], roots[at]])
    keys = np.stack([roots[at], other_roots[at_other]], axis=1)[order]
    same = (keys[1:] == keys[:-1]).all(axis=1)
    pairs = np.stack([common[order][:-1], common[order][1:]], axis=1)[same]
    return NearPairs(pairs, np.full(len(pairs), one.similarity.min(), np.float32))


def common_pairs(one: NearPairs, other: NearPairs) -> NearPairs:
    """The pairs that both have, with the similarity of the first."""
    kind = np.dtype([("first", np.int64), ("second", np.int64)])
    keys = [np.ascontiguousarray(each.pairs).view(kind).ravel() for each in (one, other)]
    inside = np.isin(keys[0], keys[1])
    return NearPairs(one.pairs[inside], one.similarity[inside])
