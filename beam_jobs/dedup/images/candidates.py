"""Candidate pairs: banding over the codes of views, with multi-probe.

The code of a crop, as a whole, is nearly that of a view of its original. So every view of every
image is stored in a table under the bits of a band, and every image, as a whole, is looked up: by
its own bits and by those with some of its least certain ones flipped (query-directed probing: Lv et
al., Multi-Probe LSH, VLDB 2007). An entry is a candidate if the whole codes differ in few bits.

A probe gets at most CROWD entries of a bucket. Rows are in an order that depends on their content
alone, so the choice of these entries does not depend on the order of reading.

A table has as many entries as fit in memory: those of a range of the buckets of a band. All rows
are read for every range, which costs less than to store their 70 probes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, first_of_run, ranges, run_starts
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
from beam_jobs.staging.reordering import Partitions, RowFile

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
_RANGE_BITS = 16  # ranges begin at this many leading bits of a bucket
_COUNTED_BUCKETS = 1 << 20
_ENTRY_BITS = np.uint64(32)  # MAX_ROWS * VIEWS < 2**32
_PART_BITS = np.uint64(36)
# A pair as `_pack` makes it.
PACKED = np.dtype([("pair", np.uint64)])
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


def find_candidates(
    images: RowFile,
    partitions: Partitions,
    number: int,
    threads: int,
    old: int | None = None,
) -> Iterator[Candidates]:
    """The pairs with similar codes, some thousand at a time.

    Every range of the buckets of a band has candidates of its own, which depend on no other range;
    they are joined by ranges of parts.

    Args:
        images: Rows of HASHED, none of them flat, in an order of content; fewer than MAX_ROWS.
        partitions: Where packed pairs (PACKED) wait.
        number: How many partitions these are.
        threads: How many work at a time.
        old: Number of the first old row: only pairs of a new row, before it, and an old one are
            searched for then, in both directions. The views of the old rows are sorted, and their
            probes looked up in the few views of the new ones, without a comparison of two old rows.
    """
    every = range(images.count)
    sides = [(every, every, 0)]
    if old is not None:
        new_rows, old_rows = every[:old], every[old:]
        sides = [(new_rows, old_rows, _SPARE_BITS), (old_rows, new_rows, _SPARE_BITS)]
    with ThreadPoolExecutor(threads) as pool:
        for parts, wholes, spare_bits in sides:
            for band in range(BANDS if len(parts) and len(wholes) else 0):
                buckets = Buckets(band, len(wholes), spare_bits)
                for some, entries in buckets.ranges(images, wholes):
                    table = _BucketTable(images, wholes, buckets, some, entries)
                    starts = range(parts.start, parts.stop, bounds.PROBED_ROWS)
                    for packed in pool.map(partial(table.look_up, images, parts.stop), starts):
                        part = (packed >> _PART_BITS).astype(np.int64)
                        partitions.add(part * number // images.count, packed.view(PACKED))
                    del table  # before the next one takes as much memory
    held: list[UInt64Array] = []
    for rows in partitions.take():
        held.append(_best_views(rows["pair"]))
        if sum(map(len, held)) >= bounds.FETCHED_PAIRS:
            yield _unpack(np.concatenate(held))
            held.clear()
    yield _unpack(np.concatenate([np.zeros(0, np.uint64), *held]))


def _blocks(images: RowFile, rows: range) -> Iterator[tuple[int, UInt64Array]]:
    """(number of the first row, [some, VIEWS] codes) of some rows."""
    for start in range(rows.start, rows.stop, bounds.PROBED_ROWS):
        stop = min(start + bounds.PROBED_ROWS, rows.stop)
        yield start, view_codes(images.read(start, stop)["hash"])


class Buckets:
    """The buckets of a band: a hash of the bits of the band, which keeps few of its own.

    Args:
        band: Which one.
        rows: How many images have views in them.
        spare_bits: More buckets than entries, so that few probes meet an entry by chance.

    Attributes:
        band: Which one.
    """

    def __init__(self, band: int, rows: int, spare_bits: int = 0) -> None:
        self.band = band
        self._bits = min(max((rows * VIEWS).bit_length() + spare_bits, 8), _MAX_BUCKET_BITS)
        self._mask = np.bitwise_or.reduce(bit_flags(BAND_POSITIONS[band]))

    def of(self, codes: UInt64Array) -> UInt64Array:
        """The bucket of each code."""
        return ((codes & self._mask) * _MULTIPLIER) >> np.uint64(64 - self._bits)

    def ranges(self, images: RowFile, rows: range) -> Iterator[tuple[range, int]]:
        """(buckets, entries) of ranges with a bounded number of entries, or one crowd.

        Args:
            images: See `find_candidates`.
            rows: Those whose views are the entries.
        """
        coarse = max(0, self._bits - _RANGE_BITS)
        counts = np.zeros(1 << (self._bits - coarse), np.int64)
        for _, codes in _blocks(images, rows):
            places = (self.of(codes.reshape(-1)) >> np.uint64(coarse)).astype(np.int64)
            counts += np.bincount(places, minlength=len(counts))
        ends = bounds_of(counts)
        first = 0
        while first < len(counts):
            most = ends[first] + bounds.TABLE_ENTRIES
            last = max(first + 1, int(np.searchsorted(ends, most, "right")) - 1)
            yield range(first << coarse, last << coarse), int(ends[last] - ends[first])
            first = last


class _BucketTable:
    """The views of some images whose bits of a band are in a range of buckets.

    Args:
        images: See `find_candidates`.
        rows: Those whose views are the entries.
        buckets: The buckets of the band.
        some: Which of them.
        entries: How many entries these have.
    """

    def __init__(
        self, images: RowFile, rows: range, buckets: Buckets, some: range, entries: int
    ) -> None:
        self._buckets = buckets
        self._first = np.uint64(some.start)
        self._size = np.uint64(len(some))
        # Bucket and place in one number: sorting it is many times faster than an argsort.
        packed = np.empty(entries, np.uint64)
        self._codes = np.empty(entries, np.uint64)
        self._entries = np.empty(entries, np.uint32)  # row * VIEWS + view
        end = 0
        for start, codes in _blocks(images, rows):
            own, bucket = self._inside(codes.reshape(-1))
            begin, end = end, end + len(own)
            packed[begin:end] = bucket << _ENTRY_BITS
            self._codes[begin:end] = codes.reshape(-1)[own]
            self._entries[begin:end] = own + start * VIEWS
        packed |= np.arange(entries, dtype=np.uint64)
        packed.sort()
        # Bucket b, counted from the first, is [starts[b], starts[b + 1]).
        self._starts = _run_edges(packed, len(some))
        order = packed.astype(np.uint32)
        del packed
        self._codes, self._entries = self._codes[order], self._entries[order]
        self._sort_crowds()

    def _inside(self, codes: UInt64Array) -> tuple[IntArray, UInt64Array]:
        """Which codes are in the range, and their buckets, counted from the first."""
        bucket = self._buckets.of(codes) - self._first  # below 0 is a large number
        own = np.flatnonzero(bucket < self._size)
        return own, bucket[own]

    def _sort_crowds(self) -> None:
        """Sorts the entries of crowded buckets by code, for `_nearest`."""
        sizes = np.diff(self._starts)
        crowds = np.flatnonzero(sizes > CROWD)
        begins, sizes = (column[crowds].astype(np.int64) for column in (self._starts, sizes))
        places, which = ranges(begins, sizes)
        order = places[np.lexsort((self._codes[places], which))]
        self._codes[places], self._entries[places] = self._codes[order], self._entries[order]

    def look_up(self, images: RowFile, stop: int, start: int) -> UInt64Array:
        """Packed pairs (part, whole, distance, view) of a block of rows as parts.

        Args:
            images: See `find_candidates`.
            stop: Number behind the last row.
            start: Number of the first row of the block.
        """
        hashes = images.read(start, min(start + bounds.PROBED_ROWS, stop))["hash"]
        own, planes = view_codes(hashes)[:, 0], certainty(hashes)
        probes = (own[:, np.newaxis] ^ _flips(weak_bits(hashes, self._buckets.band))).reshape(-1)
        inside, bucket = self._inside(probes)
        buckets = bucket.astype(np.int64)
        starts = self._starts[buckets].astype(np.int64)
        sizes = self._starts[buckets + 1] - starts
        crowded = np.flatnonzero(sizes > CROWD)
        starts[crowded] = self._nearest(starts[crowded], sizes[crowded], probes[inside[crowded]])
        sizes = np.minimum(sizes, CROWD)
        ends = bounds_of(sizes)[1:]
        piece = bounds.COMPARED_ENTRIES
        pieces = np.searchsorted(ends, np.arange(piece, int(sizes.sum()) + piece, piece), "right")
        packed = [np.zeros(0, np.uint64)]
        for first, last in itertools.pairwise([0, *pieces.tolist()]):
            places, probe = ranges(starts[first:last], sizes[first:last])
            part = inside[first + probe] // len(PROBES)
            packed.append(self._weighed(start, part, places, own, planes))
        return _best_views(np.concatenate(packed))

    def _weighed(
        self, start: int, part: IntArray, places: IntArray, own: UInt64Array, planes: UInt64Array
    ) -> UInt64Array:
        """Packed pairs of parts, counted from `start`, and the entries at places, if near."""
        differences = self._codes[places] ^ own[part]
        # Few pass this test; the next one may take longer.
        few = np.flatnonzero(np.bitwise_count(differences) <= MAX_DISTANCE)
        part, distances = part[few], _weigh(differences[few], planes[part[few]])
        wholes, views = np.divmod(self._entries[places[few]].astype(np.int64), VIEWS)
        near = (distances <= MAX_DISTANCE) & (start + part != wholes)
        return _pack(start + part, wholes, distances, views)[near]

    def _nearest(self, starts: IntArray, sizes: IntArray, codes: UInt64Array) -> IntArray:
        """Where the CROWD entries next to a code in its bucket begin, by bisection."""
        low, high = starts.copy(), starts + sizes
        while np.any(low < high):
            middle = (low + high) // 2
            inside = middle.clip(0, len(self._codes) - 1)
            below = (low < high) & (self._codes[inside] < codes)
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
        return (low - CROWD // 2).clip(starts, starts + sizes - CROWD)


def _run_edges(packed: UInt64Array, buckets: int) -> npt.NDArray[np.uint32]:
    """[buckets + 1] where each bucket begins in sorted numbers, which have it in the high bits.

    Some buckets at a time, since sizes as `bincount` returns them take twice the memory.
    """
    edges = np.zeros(buckets + 1, np.uint32)
    for first in range(0, buckets, _COUNTED_BUCKETS):
        last = min(first + _COUNTED_BUCKETS, buckets)
        limits = np.array([first, last], np.uint64) << _ENTRY_BITS
        begin, end = np.searchsorted(packed, limits).tolist()
        numbers = (packed[begin:end] >> _ENTRY_BITS).astype(np.int64) - first
        sizes = np.bincount(numbers, minlength=last - first)
        edges[first + 1 : last + 1] = begin + np.cumsum(sizes)
    return edges


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
    return (parts.astype(np.uint64) << _PART_BITS) | numbers.astype(np.uint64)


def _best_views(packed: UInt64Array) -> UInt64Array:
    """The nearest view of every pair, and of every part the NEAREST wholes; sorted."""
    packed = np.unique(packed)
    packed = packed[run_starts(packed >> np.uint64(8))]
    part = packed >> _PART_BITS
    order = np.lexsort((packed, (packed >> np.uint64(4)) & np.uint64(15), part))
    starts = run_starts(part[order])
    rank = np.arange(len(order)) - first_of_run(starts)
    return np.sort(packed[order[rank < NEAREST]])


def _unpack(packed: UInt64Array) -> Candidates:
    shifted = (packed >> _PART_BITS, packed >> np.uint64(8), packed)
    parts, wholes, views = (numbers.astype(np.int64) for numbers in shifted)
    return Candidates(parts & (MAX_ROWS - 1), wholes & (MAX_ROWS - 1), views & 15)
