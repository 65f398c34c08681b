"""Pairs of near duplicates among documents, from signatures and shingles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.text.bands import Bands, band_keys, choose_bands
from beam_jobs.dedup.text.candidates import bucket_pairs
from beam_jobs.dedup.text.pair_verifier import jaccard
from beam_jobs.dedup.text.shingles import Shingles
from beam_jobs.dedup.union_find import components

# Keys of bands that are held at a time; a corpus with more is read several times.
KEY_BYTES = 512 << 20  # 512 MiB: all 21 bands of 3 million documents
_PIECE_SHINGLES = 1 << 21  # confirmed at a time, per thread: some 100 MiB of temporary arrays

# Signatures a block at a time, in the order of rows, as often as asked for: [some, SIGNATURE].
ReadSignatures = Callable[[], Iterable[npt.NDArray[np.uint32]]]
# The shingles of some rows, ascending. Called from several threads at a time.
FetchShingles = Callable[[IntArray], Shingles]


class Documents(NamedTuple):
    """n documents, wherever their columns lie.

    Attributes:
        fingerprints: [n] uint64, no two alike but by chance; they decide the order of work, so
            that the order of rows decides nothing.
        sizes: [n] int32 or int64, shingles of each.
        signatures: Reads their signatures.
        shingles: Fetches the shingles of some.
    """

    fingerprints: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.integer]
    signatures: ReadSignatures
    shingles: FetchShingles


class NearPairs(NamedTuple):
    """Near duplicates.

    Attributes:
        pairs: [k, 2] int64 rows, the smaller one first; no pair twice.
        similarity: [k] float32, the Jaccard similarity of their shingles.
    """

    pairs: IntArray
    similarity: npt.NDArray[np.float32]


def near_pairs(documents: Documents, threshold: float, threads: int = 1) -> NearPairs:
    """Pairs whose Jaccard similarity reaches the threshold, enough to connect every cluster.

    Two that are connected already are not compared any more; so a cluster of m costs some m
    comparisons, not m * m. Permuting the rows permutes the pairs.

    Args:
        documents: Those without a shingle are near to none.
        threshold: Least similarity of a pair, from 0.04 to 1.
        threads: How many work at a time; the result is the same.

    Raises:
        UsageError: The threshold is too low.
    """
    count = len(documents.fingerprints)
    cut = choose_bands(threshold)
    order = np.argsort(documents.fingerprints, kind="stable")
    order = order[documents.sizes[order] > 0]
    links = _Links(documents, threshold, threads)
    held = max(2, KEY_BYTES // (8 * max(1, count)))
    for first in range(0, cut.bands, held):
        bands = range(first, min(first + held, cut.bands))
        keys = _read_keys(documents, cut, bands)
        for band in bands:
            # A neighbour among those held, so that which one depends on the size of the corpus
            # alone.
            other = keys[(band - first + 1) % len(bands)]
            links.add(bucket_pairs(keys[band - first], other, order))
    return links.found()


def _read_keys(documents: Documents, cut: Bands, bands: range) -> npt.NDArray[np.uint64]:
    """[bands, n] the keys of some bands."""
    keys = np.empty((len(bands), len(documents.fingerprints)), np.uint64)
    begin = 0
    for block in documents.signatures():
        end = begin + len(block)
        for row, band in enumerate(bands):
            keys[row, begin:end] = band_keys(block, cut, band)
        begin = end
    return keys


class _Links:
    """What was found so far, and what it connects."""

    def __init__(self, documents: Documents, threshold: float, threads: int) -> None:
        self._documents = documents
        self._threshold = threshold
        self._threads = threads
        self._roots = np.arange(len(documents.fingerprints))
        self._refused = np.zeros(0, np.uint64)  # packed pairs, sorted
        self._pairs = [np.zeros((0, 2), np.int64)]
        self._similarity = [np.zeros(0, np.float32)]

    def add(self, candidates: IntArray) -> None:
        """Looks at pairs that are not connected and were not looked at."""
        apart = self._roots[candidates[:, 0]] != self._roots[candidates[:, 1]]
        apart &= self._may_be_near(candidates)
        packed = np.unique(_pack(candidates[apart]))
        if len(self._refused):
            at = np.minimum(np.searchsorted(self._refused, packed), len(self._refused) - 1)
            packed = packed[self._refused[at] != packed]
        pairs = _unpack(packed)
        similarity = self._confirm(pairs)
        near = similarity >= self._threshold
        self._refused = np.sort(np.concatenate((self._refused, packed[~near])))
        if not near.any():
            return
        self._pairs.append(pairs[near])
        self._similarity.append(similarity[near].astype(np.float32))
        joined = components(len(self._roots), self._roots[pairs[near]])
        self._roots = joined[self._roots]

    def found(self) -> NearPairs:
        """All pairs, sorted."""
        pairs, similarity = np.concatenate(self._pairs), np.concatenate(self._similarity)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        return NearPairs(pairs[order], similarity[order])

    def _may_be_near(self, pairs: IntArray) -> npt.NDArray[np.bool_]:
        """Whether the sizes of two sets leave the threshold within reach."""
        sizes = self._documents.sizes[pairs]
        return sizes.min(axis=1) >= self._threshold * sizes.max(axis=1)

    def _confirm(self, pairs: IntArray) -> npt.NDArray[np.float64]:
        """[k] similarities, of pieces with a bounded number of shingles at a time."""
        if not len(pairs):
            return np.zeros(0)
        ends = np.cumsum(self._documents.sizes[pairs].sum(axis=1, dtype=np.int64))
        edges = np.flatnonzero(np.diff(ends // _PIECE_SHINGLES)) + 1
        pieces = itertools.pairwise([0, *edges.tolist(), len(pairs)])
        with ThreadPoolExecutor(self._threads) as pool:
            return np.concatenate(
                list(pool.map(lambda at: self._compare(pairs[slice(*at)]), pieces))
            )

    def _compare(self, pairs: IntArray) -> npt.NDArray[np.float64]:
        rows, places = np.unique(pairs, return_inverse=True)
        return jaccard(self._documents.shingles(rows), places.reshape(-1, 2))


def _pack(pairs: IntArray) -> npt.NDArray[np.uint64]:
    """Each pair as one number, the smaller row above."""
    ordered = np.sort(pairs, axis=1).astype(np.uint64)
    return (ordered[:, 0] << np.uint64(32)) | ordered[:, 1]


def _unpack(packed: npt.NDArray[np.uint64]) -> IntArray:
    low = packed & np.uint64(0xFFFFFFFF)
    return np.stack([packed >> np.uint64(32), low], axis=1).astype(np.int64)
