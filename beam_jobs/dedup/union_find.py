"""Connected components of many pairs, on whole columns.

The usual union-find takes one pair at a time, which takes minutes for millions of pairs in Python.
Here all pairs are processed at once: the parent of every root becomes the smallest root that it is
paired with, then all paths are halved until they are flat. Of two paired roots at least one is no
longer a root, so a round halves the number of paired roots (Shiloach and Vishkin: An O(log n)
parallel connectivity algorithm, 1982).
"""

from __future__ import annotations

import numpy as np

from beam_jobs.columns import IntArray


def components(count: int, pairs: IntArray) -> IntArray:
    """[count] int64: for every node the smallest node that it is connected to, itself included.

    Args:
        count: Nodes, which are 0 to count - 1.
        pairs: [m, 2] nodes that belong together, in any order, repeats and loops allowed.
    """
    roots = np.arange(count, dtype=np.int64)
    first, second = (np.ascontiguousarray(column, np.int64) for column in pairs.reshape(-1, 2).T)
    while len(first):
        np.minimum.at(roots, np.maximum(first, second), np.minimum(first, second))
        _flatten(roots)
        first, second = roots[first], roots[second]
        apart = first != second
        first, second = first[apart], second[apart]
    return roots


def _flatten(roots: IntArray) -> None:
    """Makes every node point at its root, halving all paths at every step."""
    while True:
        grandparents = roots[roots]
        if np.array_equal(grandparents, roots):
            return
        roots[:] = grandparents
