"""Candidate pairs: banding over the codes of views, with multi-probe.

The code of a crop, as a whole, is nearly that of a view of its original. So every view of every
image is stored in a table under the bits of a band, and every image, as a whole, is looked up: by
its own bits and by those with some of its least certain ones flipped (query-directed probing: Lv et
al., Multi-Probe LSH, VLDB 2007). An entry is a candidate if the whole codes differ in few bits.

Work and memory are linear in the number of images, since a probe gets at most CROWD entries of a
bucket. Rows are in an order that depends on their content alone, so the choice of these entries
does not depend on the order of reading.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import IntArray, first_of_run, ranges, run_starts
from beam_jobs.dedup.images.hash_format import (
    BAND_POSITIONS,
    BANDS,
    VIEWS,
    WEAK_BITS,
    bit_flags,
    certainty,
    view_codes,
    weak_bits,
)

UInt64Array = npt.NDArray[np.uint64]

# Sum over the bits in which two codes differ, each counting 1 to 4 by its certainty in the part: a
# crop flips uncertain bits, another image flips any. Of 10 % crops of 560 photographs 98 % pass; a
# limit of 10 on the mere number of bits passes as many, and 3 to 8 times as many pairs of different
# images.
MAX_DISTANCE = 13
# Entries of a bucket that a probe is compared with. Ordinary buckets hold 1 or 2.
CROWD = 32
# Wholes that one part is compared with at most, the nearest ones. In a corpus of images as similar
# as clothing on a floor, false candidates grow with the square of its size; this bounds them.
NEAREST = 16
# Row numbers have 28 bits in pairs packed into 64.
MAX_ROWS = 1 << 28
# Subsets of the weak bits are tried whose ranks (from 1) sum up to this or less: there are 70.
_RANK_SUM = 12
_SPARE_BITS = 4  # of a table that many more probes are looked up in than it has entries
_MAX_BUCKET_BITS = 26  # bounds the table's index at 256 MiB
_ENTRY_BITS = np.uint64(32)  # MAX_ROWS * VIEWS < 2**32
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: Fibonacci hashing (Knuth, 6.4)


class Candidates(NamedTuple):
    """Candidate pairs, sorted; a pair of rows can occur in both directions.

    Attributes:
        parts: [k] rows that may be crops (or, where the view is 0, copies) of
        wholes: [k] rows.
        views: [k] the view of the whole that is similar to the part.
    """

    parts: IntArray
    wholes: IntArray
    views: IntArray


def find_candidates(hashes: npt.NDArray[np.uint8], threads: int = 1) -> Candidates:
    """The pairs with similar codes.

    Args:
        hashes: [n, HASH_BYTES], none of them flat, in an order of content; n < MAX_ROWS.
        threads: How many work at a time.
    """
    codes = view_codes(hashes)
    packed = [np.zeros(0, np.uint64)]
    planes = certainty(hashes)
    size = bounds.PROBED_ROWS
    blocks = [slice(start, start + size) for start in range(0, len(codes), size)]
    with ThreadPoolExecutor(threads) as pool:
        for band in range(BANDS):
            table = _BucketTable(codes, band)
            looked_up = pool.map(
                lambda rows, table=table, band=band: table.look_up(
                    rows.start, codes[rows, 0], weak_bits(hashes[rows], band), planes[rows]
                ),
                blocks,
            )
            packed.extend(looked_up)
    return _unpack(_best_views(np.concatenate(packed)))


def find_candidates_across(
    new: npt.NDArray[np.uint8], old: npt.NDArray[np.uint8], threads: int = 1
) -> Candidates:
    """The pairs of a new and an old row with similar codes, in both directions.

    The views of the old rows are sorted, and their probes looked up in the few views of the new
    ones: both are passes over columns, without a comparison of two old rows.

    Args:
        new: [n, HASH_BYTES], none of them flat; rows 0 to n - 1 of the candidates.
        old: [m, HASH_BYTES], same; rows n to n + m - 1.
        threads: How many work at a time.
    """
    packed = [np.zeros(0, np.uint64)]
    with ThreadPoolExecutor(threads) as pool:
        for parts, first_part, wholes, first_whole in (
            (new, 0, old, len(new)),
            (old, len(new), new, 0),
        ):
            codes, whole_codes, planes = view_codes(parts), view_codes(wholes), certainty(parts)
            starts = range(0, len(parts), bounds.PROBED_ROWS)
            for band in range(BANDS if len(parts) and len(wholes) else 0):
                table = _BucketTable(whole_codes, band, first_whole, _SPARE_BITS)

                def look_up(
                    start: int,
                    table: _BucketTable = table,
                    band: int = band,
                    first: int = first_part,
                    parts: npt.NDArray[np.uint8] = parts,
                    codes: UInt64Array = codes,
                    planes: UInt64Array = planes,
                ) -> UInt64Array:
                    rows = slice(start, start + bounds.PROBED_ROWS)
                    weak = weak_bits(parts[rows], band)
                    return table.look_up(first + start, codes[rows, 0], weak, planes[rows])

                packed.extend(pool.map(look_up, starts))
    return _unpack(_best_views(np.concatenate(packed)))


class _BucketTable:
    """The views of some images, by the bits of one band.

    Args:
        codes: [rows, VIEWS].
        band: Which one.
        first: Number of the first row.
        spare_bits: More buckets than entries, so that few probes meet an entry by chance.
    """

    def __init__(self, codes: UInt64Array, band: int, first: int = 0, spare_bits: int = 0) -> None:
        self._first = first
        self._flat = codes.reshape(-1)
        self._mask = np.bitwise_or.reduce(bit_flags(BAND_POSITIONS[band]))
        self._bits = min(max(self._flat.size.bit_length() + spare_bits, 8), _MAX_BUCKET_BITS)
        # Bucket and entry in one number: sorting it is many times faster than an argsort.
        packed = self._buckets(self._flat) << _ENTRY_BITS
        packed |= np.arange(self._flat.size, dtype=np.uint64)
        packed.sort()
        # [entries] row * VIEWS + view, by bucket; bucket b is [starts[b], starts[b + 1]).
        self._entries = packed.astype(np.uint32)
        packed >>= _ENTRY_BITS
        sizes = np.bincount(packed.view(np.int64), minlength=1 << self._bits)
        self._starts = np.zeros(len(sizes) + 1, np.uint32)
        np.cumsum(sizes, out=self._starts[1:])
        self._sort_crowds(np.flatnonzero(sizes > CROWD), sizes)

    def _buckets(self, codes: UInt64Array) -> UInt64Array:
        return ((codes & self._mask) * _MULTIPLIER) >> np.uint64(64 - self._bits)

    def _sort_crowds(self, buckets: IntArray, sizes: IntArray) -> None:
        """Sorts the entries of crowded buckets by code, for `_nearest`."""
        places, which = ranges(self._starts[buckets].astype(np.int64), sizes[buckets])
        entries = self._entries[places]
        self._entries[places] = entries[np.lexsort((self._flat[entries], which))]

    def look_up(
        self, start: int, own: UInt64Array, weak: npt.NDArray[np.uint8], planes: UInt64Array
    ) -> UInt64Array:
        """Packed pairs (part, whole, distance, view) of a block of rows as parts.

        Args:
            start: Number of the first row of the block.
            own: [r] codes of the rows as wholes.
            weak: [r, WEAK_BITS] the least certain bits of the band.
            planes: [r, 2] the certainty of all bits.
        """
        probes = (own[:, np.newaxis] ^ _flips(weak)).reshape(-1)
        buckets = self._buckets(probes).astype(np.int64)
        starts = self._starts[buckets].astype(np.int64)
        sizes = self._starts[buckets + 1] - starts
        crowded = np.flatnonzero(sizes > CROWD)
        starts[crowded] = self._nearest(starts[crowded], sizes[crowded], probes[crowded])
        sizes = np.minimum(sizes, CROWD)
        ends = np.cumsum(sizes)
        piece = bounds.COMPARED_ENTRIES
        pieces = np.searchsorted(ends, np.arange(piece, int(ends[-1]) + piece, piece), "right")
        packed = [np.zeros(0, np.uint64)]
        for first, last in itertools.pairwise([0, *pieces.tolist()]):
            places, probe = ranges(starts[first:last], sizes[first:last])
            part = (first + probe) // len(PROBES)
            packed.append(self._weighed(start, part, places, own, planes))
        return _best_views(np.concatenate(packed))

    def _weighed(
        self, start: int, part: IntArray, places: IntArray, own: UInt64Array, planes: UInt64Array
    ) -> UInt64Array:
        """Packed pairs of parts, counted from `start`, and the entries at places, if near."""
        entries = self._entries[places]
        differences = self._flat[entries] ^ own[part]
        # Few pass this test; the next one may take longer.
        few = np.flatnonzero(np.bitwise_count(differences) <= MAX_DISTANCE)
        part, distances = part[few], _weigh(differences[few], planes[part[few]])
        wholes, views = np.divmod(entries[few].astype(np.int64), VIEWS)
        wholes += self._first
        near = (distances <= MAX_DISTANCE) & (start + part != wholes)
        return _pack(start + part, wholes, distances, views)[near]

    def _nearest(self, starts: IntArray, sizes: IntArray, codes: UInt64Array) -> IntArray:
        """Where the CROWD entries next to a code in its bucket begin, by bisection."""
        low, high = starts.copy(), starts + sizes
        while np.any(low < high):
            middle = (low + high) // 2
            inside = middle.clip(0, len(self._entries) - 1)
            below = (low < high) & (self._flat[self._entries[inside]] < codes)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        return (low - CROWD // 2).clip(starts, starts + sizes - CROWD)


def _probes() -> npt.NDArray[np.bool_]:
    """[probes, WEAK_BITS]: which of the weak bits each probe flips."""
    chosen = [
        [rank in subset for rank in range(1, WEAK_BITS + 1)]
        for size in range(WEAK_BITS + 1)
        for subset in itertools.combinations(range(1, WEAK_BITS + 1), size)
        if sum(subset) <= _RANK_SUM
    ]
    return np.array(chosen)


PROBES = _probes()


def _flips(weak: npt.NDArray[np.uint8]) -> UInt64Array:
    """[r, probes] the bits that each probe flips."""
    flags = bit_flags(weak)
    flips = np.zeros((len(weak), len(PROBES)), np.uint64)
    for rank in range(WEAK_BITS):
        flips[:, PROBES[:, rank]] ^= flags[:, rank, np.newaxis]
    return flips


def _weigh(differences: UInt64Array, planes: UInt64Array) -> IntArray:
    """[k] the sum over the bits set, each counting 1 more than its certainty."""
    low, high = (np.bitwise_count(differences & plane).astype(np.int64) for plane in planes.T)
    return np.bitwise_count(differences) + low + 2 * high


def _pack(parts: IntArray, wholes: IntArray, distances: IntArray, views: IntArray) -> UInt64Array:
    """28, 28, 4 and 4 bits, so that the best view of a pair sorts first."""
    numbers = (wholes << 8) | (distances.clip(0, 15) << 4) | views
    return (parts.astype(np.uint64) << np.uint64(36)) | numbers.astype(np.uint64)


def _best_views(packed: UInt64Array) -> UInt64Array:
    """The nearest view of every pair, and of every part the NEAREST wholes; sorted."""
    packed = np.unique(packed)
    packed = packed[run_starts(packed >> np.uint64(8))]
    part = packed >> np.uint64(36)
    order = np.lexsort((packed, (packed >> np.uint64(4)) & np.uint64(15), part))
    starts = run_starts(part[order])
    rank = np.arange(len(order)) - first_of_run(starts)
    return np.sort(packed[order[rank < NEAREST]])


def _unpack(packed: UInt64Array) -> Candidates:
    shifted = (packed >> np.uint64(36), packed >> np.uint64(8), packed)
    parts, wholes, views = (numbers.astype(np.int64) for numbers in shifted)
    return Candidates(parts & (MAX_ROWS - 1), wholes & (MAX_ROWS - 1), views & 15)
