"""Near duplicates among documents, from the MinHash signatures and shingles in the sidecars.

Candidates agree in all places of a band of their signatures, and are verified by the exact Jaccard
similarity of their shingles. Keys of bands wait in files by band and range; what shares a key is
looked up in the order of records, and compared a range of keys of a band at a time. Only pairs are
held in memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import BoolArray, IntArray, fixed_bytes, repeated
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, NearPairs, connected
from beam_jobs.dedup.text.candidates import (
    BUCKET_ROWS,
    Bands,
    band_keys,
    bucket_pairs,
    choose_bands,
    pairs_across,
)
from beam_jobs.dedup.text.shingles import Shingles, jaccard, jaccard_across
from beam_jobs.dedup.text.signatures import SIGNATURE_BYTES
from beam_jobs.staging.reordering import StructuredArray, rows_of_partition
from beam_jobs.staging.sidecars import Sidecars, rows_among
from beam_jobs.staging.stored import StoredRecords
from foundation.machine import usable_cores

# Each needs some 100 MiB, and few candidates are left to verify.
_MAX_THREADS = 8

_KEYS = np.dtype([("key", np.uint64), ("record", np.int64)])
_SHARED = np.dtype([("record", np.int64), ("band", np.int64)])


def near_duplicates(sidecars: Sidecars, threshold: float, workers: int | None) -> NearPairs:
    """Pairs whose Jaccard similarity reaches the threshold, enough to connect every cluster.

    Two that are connected by an earlier band are not compared again, so a cluster of m costs some m
    comparisons, not m * m. Permuting the records permutes the pairs. Documents without a shingle
    have no near duplicates.

    Args:
        sidecars: All staged units; of exact duplicates one record is included.
        threshold: Least similarity of a pair, from 0.04 to 1.
        workers: How many threads; None for one per usable core. The result is the same.
    """
    cut = choose_bands(threshold)
    verified = _VerifiedPairs(sidecars, threshold, usable_threads(workers))
    ranges = max(1, -(-sidecars.records // bounds.MOST_PARTITION_ROWS))
    with closing(sidecars.partitions(BUCKET_ROWS, cut.bands * ranges)) as partitions:
        for band, rows in _bucket_rows(sidecars, cut, ranges):
            partitions.add(_range_of(band, rows["key"], ranges), rows)
        for number, rows in enumerate(partitions.take()):
            pairs = bucket_pairs(rows)
            verified.add(rows["record"][pairs], rows["size"][pairs])
            if number % ranges == ranges - 1:  # the last of its band
                verified.connect()
    return verified.all()


def usable_threads(workers: int | None) -> int:
    """How many threads verify at a time; None for one per usable core."""
    return min(workers or math.ceil(usable_cores()), _MAX_THREADS)


def can_be_similar(sizes: IntArray, threshold: float) -> BoolArray:
    """[k] whether sets of [k, 2] such sizes can have a similarity of the threshold."""
    return np.asarray(sizes.min(axis=1) >= threshold * sizes.max(axis=1), np.bool_)


def compared_in_pieces(
    pairs: npt.NDArray[Any],
    sizes: IntArray,
    compare: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]],
    threads: int,
) -> npt.NDArray[np.float64]:
    """[k] similarities, of pieces with a bounded number of shingles at a time.

    Args:
        pairs: [k, ...] pairs.
        sizes: [k] numbers of shingles of each pair.
        compare: Compares some of the pairs.
        threads: How many work at a time.
    """
    with ThreadPoolExecutor(threads) as pool:
        compared = pool.map(lambda piece: compare(pairs[piece]), pieces_of(sizes))
        return np.concatenate([np.zeros(0), *compared])


def pieces_of(sizes: IntArray) -> list[slice]:
    """Neighbours that have about VERIFIED_SHINGLES together, or one that has more."""
    if not len(sizes):
        return []
    edges = np.flatnonzero(np.diff(np.cumsum(sizes) // bounds.VERIFIED_SHINGLES)) + 1
    return [slice(*piece) for piece in itertools.pairwise([0, *edges.tolist(), len(sizes)])]


def _range_of(band: IntArray, keys: npt.NDArray[np.uint64], ranges: int) -> IntArray:
    """[n] the partition of a key of each band."""
    return band * ranges + ((keys >> np.uint64(32)).astype(np.int64) * ranges >> 32)


def _shared_keys(sidecars: Sidecars, cut: Bands, ranges: int) -> Iterator[StructuredArray]:
    """Rows of _SHARED: documents whose key of a band another one has too."""
    with closing(sidecars.partitions(_KEYS, cut.bands * ranges)) as partitions:
        for begin, table in sidecars:
            kept = sidecars.included(begin, table) & (shingle_counts(table) > 0)
            signatures = signatures_of(table)[kept]
            rows = np.empty(len(signatures), _KEYS)
            rows["record"] = begin + np.flatnonzero(kept)
            for band in range(cut.bands):
                rows["key"] = band_keys(signatures, cut, band)
                which = np.full(len(rows), band, np.int64)
                partitions.add(_range_of(which, rows["key"], ranges), rows.copy())
        for number, rows in enumerate(partitions.take()):
            records = rows["record"][repeated(rows["key"])]
            shared = np.empty(len(records), _SHARED)
            shared["record"], shared["band"] = records, number // ranges
            yield shared


def _bucket_rows(
    sidecars: Sidecars, cut: Bands, ranges: int
) -> Iterator[tuple[IntArray, StructuredArray]]:
    """([n] bands, [n] BUCKET_ROWS) of all shared keys, looked up in the order of records."""
    number = max(1, -(-sidecars.records // rows_of_partition(sidecars.records)))
    with closing(sidecars.partitions(_SHARED, number)) as partitions:
        for shared in _shared_keys(sidecars, cut, ranges):
            partitions.add(shared["record"] * number // sidecars.records, shared)
        for shared in partitions.take():
            shared.sort(order=("record", "band"))
            records = np.unique(shared["record"])
            for start in range(0, len(records), bounds.LOOKED_UP_DOCUMENTS):
                some = records[start : start + bounds.LOOKED_UP_DOCUMENTS]
                first, last = np.searchsorted(shared["record"], [some[0], some[-1] + 1]).tolist()
                yield _described(sidecars, cut, some, shared[first:last])


def _described(
    sidecars: Sidecars, cut: Bands, records: IntArray, shared: StructuredArray
) -> tuple[IntArray, StructuredArray]:
    table = sidecars.take(records, ["fingerprint", "near_signature", "near_shingles"])
    signatures = signatures_of(table)
    keys = np.stack([band_keys(signatures, cut, band) for band in range(cut.bands)])
    at, band = np.searchsorted(records, shared["record"]), shared["band"]
    rows = np.empty(len(shared), BUCKET_ROWS)
    rows["record"], rows["size"] = shared["record"], shingle_counts(table)[at]
    rows["key"], rows["tie_break"] = keys[band, at], keys[(band + 1) % cut.bands, at]
    rows["fingerprint"] = fixed_bytes(table["fingerprint"], 16).view("<u8")[at, 0]
    return band, rows


def signatures_of(table: pa.Table) -> npt.NDArray[np.uint32]:
    """[n, SIGNATURE] signatures of the rows of a sidecar."""
    return fixed_bytes(table["near_signature"], SIGNATURE_BYTES).view("<u4")


def shingle_counts(table: pa.Table) -> IntArray:
    """[n] the number of shingles of each document."""
    return np.asarray(pc.list_value_length(table["near_shingles"]).to_numpy(), np.int64)


def shingles_of(sidecars: Sidecars, records: IntArray) -> Shingles:
    """The shingles of some records, in their order."""
    column = sidecars.take(records, ["near_shingles"])["near_shingles"].combine_chunks()
    return Shingles(column.values.to_numpy(), column.offsets.to_numpy())


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
    cut = choose_bands(threshold)
    keys = np.empty((cut.bands, len(records)), np.uint64)
    sizes = np.empty(len(records), np.int64)
    for begin, table in sidecars:
        own, rows = rows_among(records, begin, table)
        sizes[own] = shingle_counts(table)[rows]
        signatures = signatures_of(table)[rows]
        for band in range(cut.bands):
            keys[band, own] = band_keys(signatures, cut, band)
    candidates = [np.zeros((0, 2), np.int64)]
    begin = 0
    for table in stored.tables(["near_signature"]):
        old = signatures_of(table)
        for band in range(cut.bands):
            band_pairs = pairs_across(keys[band], band_keys(old, cut, band))
            band_pairs[:, 1] += begin
            candidates.append(band_pairs)
        begin += len(old)
    pairs = np.unique(np.concatenate(candidates), axis=0)
    pairs = pairs[sizes[pairs[:, 0]] > 0]
    pairs[:, 0] = records[pairs[:, 0]]
    near, similarity = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
    for start in range(0, len(pairs), bounds.ACROSS_PAIRS):
        block = pairs[start : start + bounds.ACROSS_PAIRS]
        values = _similarity_across(sidecars, stored, block)
        near.append(block[values >= threshold])
        similarity.append(values[values >= threshold])
    return NearPairs(np.concatenate(near), np.concatenate(similarity).astype(np.float32))


def _similarity_across(
    sidecars: Sidecars, stored: StoredRecords, pairs: IntArray
) -> npt.NDArray[np.float64]:
    """[k] Jaccard similarity of pairs of a new document and a stored one."""
    rows, places = np.unique(pairs[:, 0], return_inverse=True)
    old, old_places = np.unique(pairs[:, 1], return_inverse=True)
    one = shingles_of(sidecars, rows)
    column = stored.take(old, ["near_shingles"])["near_shingles"].combine_chunks()
    other = Shingles(column.values.to_numpy(), column.offsets.to_numpy())
    return jaccard_across(one, other, np.stack([places, old_places], axis=1))


class _VerifiedPairs:
    """The pairs verified so far, and which documents they connect."""

    def __init__(self, sidecars: Sidecars, threshold: float, threads: int) -> None:
        self._sidecars = sidecars
        self._threshold = threshold
        self._threads = threads
        self._nodes = self._roots = np.zeros(0, np.int64)
        self._rejected = np.zeros(0, np.uint64)  # packed pairs, sorted
        self._near = [NO_NEAR_PAIRS]

    def add(self, pairs: IntArray, sizes: IntArray) -> None:
        """Verifies the candidates that are neither connected nor rejected yet.

        Args:
            pairs: [k, 2] records.
            sizes: [k, 2] their numbers of shingles.
        """
        apart = np.not_equal(*self._root_of(pairs).T)
        apart &= can_be_similar(sizes, self._threshold)
        packed, first = np.unique(_pack(pairs[apart]), return_index=True)
        total = sizes[apart].sum(axis=1, dtype=np.int64)[first]
        if len(self._rejected):
            at = np.minimum(np.searchsorted(self._rejected, packed), len(self._rejected) - 1)
            unknown = self._rejected[at] != packed
            packed, total = packed[unknown], total[unknown]
        candidates = _unpack(packed)
        similarity = compared_in_pieces(candidates, total, self._compare, self._threads)
        near = similarity >= self._threshold
        self._near.append(NearPairs(_unpack(packed[near]), similarity[near].astype(np.float32)))
        # What does not fit is verified, and rejected, again.
        rejected = np.concatenate((self._rejected, packed[~near]))
        self._rejected = np.sort(rejected)[: bounds.REJECTED_PAIRS]

    def connect(self) -> None:
        """Has the pairs so far count as connected, for those that are added from now on."""
        self._nodes, self._roots = connected(self.all().pairs)

    def all(self) -> NearPairs:
        """All pairs, sorted."""
        pairs, similarity = (np.concatenate(parts) for parts in zip(*self._near, strict=True))
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        return NearPairs(pairs[order], similarity[order])

    def _root_of(self, records: IntArray) -> IntArray:
        if not len(self._nodes):
            return records
        at = np.minimum(np.searchsorted(self._nodes, records), len(self._nodes) - 1)
        return np.where(self._nodes[at] == records, self._roots[at], records)

    def _compare(self, pairs: IntArray) -> npt.NDArray[np.float64]:
        records, places = np.unique(pairs, return_inverse=True)
        return jaccard(shingles_of(self._sidecars, records), places.reshape(-1, 2))


def _pack(pairs: IntArray) -> npt.NDArray[np.uint64]:
    """Each pair as one number, the smaller row in the high bits."""
    ordered = np.sort(pairs, axis=1).astype(np.uint64)
    return (ordered[:, 0] << np.uint64(32)) | ordered[:, 1]


def _unpack(packed: npt.NDArray[np.uint64]) -> IntArray:
    low = packed & np.uint64(0xFFFFFFFF)
    return np.stack([packed >> np.uint64(32), low], axis=1).astype(np.int64)
