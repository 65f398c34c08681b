"""Near duplicates among documents, from the MinHash signatures and shingles in the sidecars.

`near_duplicates` reads the sidecars; `near_pairs` finds candidate pairs by bands of signatures and
verifies them by the exact Jaccard similarity of their shingles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import IntArray, fixed_bytes
from beam_jobs.dedup.clusters import NearPairs, components
from beam_jobs.dedup.text.candidates import (
    Bands,
    band_keys,
    bucket_pairs,
    choose_bands,
    pairs_across,
)
from beam_jobs.dedup.text.shingles import Shingles, jaccard
from beam_jobs.dedup.text.signatures import SIGNATURE_BYTES
from beam_jobs.staging.sidecars import Sidecars, rows_among
from beam_jobs.staging.stored import StoredRecords
from foundation.machine import usable_cores

# Keys of bands in memory at a time; the signatures of a larger corpus are read several times.
# Each needs some 100 MiB, and few candidates are left to verify.
_MAX_THREADS = 8

# Signatures a block at a time, in the order of rows, as often as asked for: [some, SIGNATURE].
ReadSignatures = Callable[[], Iterable[npt.NDArray[np.uint32]]]
# The shingles of some rows, ascending. Called from several threads at a time.
FetchShingles = Callable[[IntArray], Shingles]


class Documents(NamedTuple):
    """n documents, wherever their columns are stored.

    Attributes:
        fingerprints: [n] uint64, different but by chance; they decide the order of work, so
            that the order of rows has no effect.
        sizes: [n] int32 or int64, shingles of each.
        signatures: Reads their signatures.
        shingles: Fetches the shingles of some.
    """

    fingerprints: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.integer]
    signatures: ReadSignatures
    shingles: FetchShingles


def near_duplicates(sidecars: Sidecars, threshold: float, workers: int | None) -> NearPairs:
    """Near duplicates among the included records.

    Args:
        sidecars: All staged units; of exact duplicates one record is included.
        threshold: See `near_pairs`.
        workers: How many threads; None for one per usable core.
    """
    included = [
        begin + np.flatnonzero(sidecars.included(begin, table))
        for begin, table in sidecars.without_progress()
    ]
    records = np.concatenate([np.zeros(0, np.int64), *included])
    documents = _staged(sidecars, records)
    threads = min(workers or math.ceil(usable_cores()), _MAX_THREADS)
    near = near_pairs(documents, threshold, threads)
    return NearPairs(records[near.pairs], near.similarity)


def near_earlier_ones(
    sidecars: Sidecars, records: IntArray, stored: StoredRecords, threshold: float
) -> NearPairs:
    """Pairs of a new document and one of an earlier generation.

    In every band, a new document is compared with at most `ACROSS` old ones.

    Args:
        sidecars: All staged units.
        records: [n] int64, numbers of the new records, ascending.
        stored: The earlier generations.
        threshold: See `near_pairs`.

    Returns:
        Pairs (number of the new record, row in `stored`).
    """
    new = _staged(sidecars, records)
    cut = choose_bands(threshold)
    keys = _read_keys(new, cut, range(cut.bands))
    candidates = [np.zeros((0, 2), np.int64)]
    begin = 0
    for table in stored.tables(["near_signature"]):
        old = fixed_bytes(table["near_signature"], SIGNATURE_BYTES).view("<u4")
        for band in range(cut.bands):
            band_pairs = pairs_across(keys[band], band_keys(old, cut, band))
            band_pairs[:, 1] += begin
            candidates.append(band_pairs)
        begin += len(old)
    pairs = np.unique(np.concatenate(candidates), axis=0)
    pairs = pairs[new.sizes[pairs[:, 0]] > 0]
    near, similarity = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
    for start in range(0, len(pairs), bounds.ACROSS_PAIRS):
        block = pairs[start : start + bounds.ACROSS_PAIRS]
        values = _similarity_across(new, stored, block)
        near.append(block[values >= threshold])
        similarity.append(values[values >= threshold])
    found_pairs = np.concatenate(near)
    return NearPairs(
        np.stack([records[found_pairs[:, 0]], found_pairs[:, 1]], axis=1),
        np.concatenate(similarity).astype(np.float32),
    )


def _similarity_across(
    new: Documents, stored: StoredRecords, pairs: IntArray
) -> npt.NDArray[np.float64]:
    """[k] Jaccard similarity of pairs of a new document and a stored one."""
    rows, places = np.unique(pairs[:, 0], return_inverse=True)
    old, old_places = np.unique(pairs[:, 1], return_inverse=True)
    one = new.shingles(rows)
    column = stored.take(old, ["near_shingles"])["near_shingles"].combine_chunks()
    hashes = np.concatenate([one.hashes, column.values.to_numpy()])
    begins = np.concatenate([one.begins, column.offsets.to_numpy()[1:] + len(one.hashes)])
    both = np.stack([places, old_places + len(rows)], axis=1)
    return jaccard(Shingles(hashes, begins), both)


def _staged(sidecars: Sidecars, records: IntArray) -> Documents:
    """Some records of staged units."""
    fingerprints = np.empty(len(records), np.uint64)
    sizes = np.empty(len(records), np.int32)
    for begin, table in sidecars:
        own, rows = rows_among(records, begin, table)
        fingerprints[own] = fixed_bytes(table["fingerprint"], 16).view("<u8")[rows, 0]
        sizes[own] = pc.list_value_length(table["near_shingles"]).to_numpy()[rows]

    def signatures() -> Iterator[npt.NDArray[np.uint32]]:
        for begin, table in sidecars.without_progress():
            _, rows = rows_among(records, begin, table)
            stored = fixed_bytes(table["near_signature"], SIGNATURE_BYTES)
            yield stored.view("<u4")[rows]

    def shingles(rows: IntArray) -> Shingles:
        taken = sidecars.take(records[rows], ["near_shingles"])["near_shingles"]
        column = taken.combine_chunks()
        return Shingles(column.values.to_numpy(), column.offsets.to_numpy())

    return Documents(fingerprints, sizes, signatures, shingles)


def near_pairs(documents: Documents, threshold: float, threads: int = 1) -> NearPairs:
    """Pairs whose Jaccard similarity reaches the threshold, enough to connect every cluster.

    Two that are connected already are not compared again, so a cluster of m costs some m
    comparisons, not m * m. Permuting the rows permutes the pairs.

    Args:
        documents: Those without a shingle have no near duplicates.
        threshold: Least similarity of a pair, from 0.04 to 1.
        threads: How many work at a time; the result is the same.
    """
    count = len(documents.fingerprints)
    cut = choose_bands(threshold)
    order = np.argsort(documents.fingerprints, kind="stable")
    order = order[documents.sizes[order] > 0]
    verified = _VerifiedPairs(documents, threshold, threads)
    held = max(2, bounds.BAND_BYTES // (8 * max(1, count)))
    for first in range(0, cut.bands, held):
        bands = range(first, min(first + held, cut.bands))
        keys = _read_keys(documents, cut, bands)
        for band in bands:
            # The next band in memory: which one that is depends on the size of the corpus alone.
            other = keys[(band - first + 1) % len(bands)]
            verified.add(bucket_pairs(keys[band - first], other, order))
    return verified.found()


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


class _VerifiedPairs:
    """The pairs found so far, and which documents they connect."""

    def __init__(self, documents: Documents, threshold: float, threads: int) -> None:
        self._documents = documents
        self._threshold = threshold
        self._threads = threads
        self._roots = np.arange(len(documents.fingerprints))
        self._rejected = np.zeros(0, np.uint64)  # packed pairs, sorted
        self._pairs = [np.zeros((0, 2), np.int64)]
        self._similarity = [np.zeros(0, np.float32)]

    def add(self, candidates: IntArray) -> None:
        """Verifies the candidates that are neither connected nor rejected yet."""
        apart = self._roots[candidates[:, 0]] != self._roots[candidates[:, 1]]
        sizes = self._documents.sizes[candidates]
        # Sets of very different sizes cannot have a similarity of the threshold.
        apart &= sizes.min(axis=1) >= self._threshold * sizes.max(axis=1)
        packed = np.unique(_pack(candidates[apart]))
        if len(self._rejected):
            at = np.minimum(np.searchsorted(self._rejected, packed), len(self._rejected) - 1)
            packed = packed[self._rejected[at] != packed]
        pairs = _unpack(packed)
        similarity = self._verify(pairs)
        near = similarity >= self._threshold
        self._rejected = np.sort(np.concatenate((self._rejected, packed[~near])))
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

    def _verify(self, pairs: IntArray) -> npt.NDArray[np.float64]:
        """[k] similarities, of pieces with a bounded number of shingles at a time."""
        if not len(pairs):
            return np.zeros(0)
        ends = np.cumsum(self._documents.sizes[pairs].sum(axis=1, dtype=np.int64))
        edges = np.flatnonzero(np.diff(ends // bounds.VERIFIED_SHINGLES)) + 1
        pieces = itertools.pairwise([0, *edges.tolist(), len(pairs)])
        with ThreadPoolExecutor(self._threads) as pool:
            return np.concatenate(
                list(pool.map(lambda at: self._compare(pairs[slice(*at)]), pieces))
            )

    def _compare(self, pairs: IntArray) -> npt.NDArray[np.float64]:
        rows, places = np.unique(pairs, return_inverse=True)
        return jaccard(self._documents.shingles(rows), places.reshape(-1, 2))


def _pack(pairs: IntArray) -> npt.NDArray[np.uint64]:
    """Each pair as one number, the smaller row in the high bits."""
    ordered = np.sort(pairs, axis=1).astype(np.uint64)
    return (ordered[:, 0] << np.uint64(32)) | ordered[:, 1]


def _unpack(packed: npt.NDArray[np.uint64]) -> IntArray:
    low = packed & np.uint64(0xFFFFFFFF)
    return np.stack([packed >> np.uint64(32), low], axis=1).astype(np.int64)
