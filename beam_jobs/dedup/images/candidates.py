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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
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
from beam_jobs.staging.reordering import Partitions, RowFile, StoredRows, StructuredArray

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
# Subsets of the weak bits are tried whose ranks (from 1) sum up to this or less: there are 70.
_RANK_SUM = 12
_SPARE_BITS = 4  # of a table that many more probes are looked up in than it has entries
_MAX_BUCKET_BITS = 26  # bounds the table's index at 256 MiB
_CROWDED_BITS = 6  # a bucket has 64 entries at most on average, however many images there are
_RANGE_BITS = 16  # ranges begin at this many leading bits of a bucket
_COUNTED_BUCKETS = 1 << 20
_ENTRY_BITS = np.uint64(32)
# A view of a whole in a table, of a band: its code, and its number (row * VIEWS + view).
ENTRY = np.dtype([("code", np.uint64), ("number", np.int64)])
# An image that is looked up as a part, in a band.
PART = np.dtype(
    [
        ("row", np.int64),
        ("code", np.uint64),
        ("certainty", np.uint64, (2,)),
        ("weak", np.uint8, (WEAK_BITS,)),
    ]
)
# A candidate: the row of the part, and the row, distance and view of the whole in one number, of
# which lower ones are better for the same whole.
CANDIDATE = np.dtype([("part", np.int64), ("match", np.uint64)])
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


class BandRows(NamedTuple):
    """Blocks of rows of one band, which are read as often as they are needed.

    Attributes:
        parts: Each reads a block of PART.
        entries: Each reads a block of ENTRY, in the order of their numbers.
    """

    parts: Sequence[Callable[[], StructuredArray]]
    entries: Sequence[Callable[[], StructuredArray]]


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
        images: Rows of HASHED, none of them flat, in an order of content.
        partitions: Where candidates (CANDIDATE) wait.
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
                rows = BandRows(
                    [partial(_read_parts, images, band, block) for block in blocks(parts)],
                    [partial(_read_entries, images, block) for block in blocks(wholes)],
                )
                buckets = Buckets(band, len(wholes), spare_bits)
                for likely in search_band(rows, buckets, buckets.all, pool):
                    partitions.add(likely["part"] * number // images.count, likely)
    held: list[StructuredArray] = [np.zeros(0, CANDIDATE)]
    for likely in partitions.take():
        held.append(best_views(likely))
        if sum(map(len, held)) >= bounds.FETCHED_PAIRS:
            yield unpack(np.concatenate(held))
            held.clear()
    yield unpack(np.concatenate([np.zeros(0, CANDIDATE), *held]))


def search_band(
    rows: BandRows, buckets: Buckets, some: range, pool: Executor
) -> Iterator[StructuredArray]:
    """Rows of CANDIDATE, of each block of parts and each table of entries.

    Args:
        rows: The parts that may have probes in the buckets, and the entries that are in them.
        buckets: The buckets of the band.
        some: The coarse buckets to search, see `Buckets.coarse`.
        pool: Looks blocks of parts up.
    """
    for inside, entries in buckets.ranges(rows.entries, some):
        table = _BucketTable(rows.entries, buckets, inside, entries)
        yield from pool.map(table.look_up, rows.parts)
        del table  # before the next one takes as much memory


def blocks(rows: range) -> list[range]:
    """Ranges of rows that are read at a time."""
    starts = range(rows.start, rows.stop, bounds.PROBED_ROWS)
    return [range(start, min(start + bounds.PROBED_ROWS, rows.stop)) for start in starts]


def stored_blocks(file: StoredRows) -> list[Callable[[], StructuredArray]]:
    """What reads each block of a file of parts or entries."""
    return [partial(file.read, block.start, block.stop) for block in blocks(range(file.count))]


def _read_parts(images: StoredRows, band: int, block: range) -> StructuredArray:
    return parts_of(images.read(block.start, block.stop)["hash"], block.start, band)


def _read_entries(images: StoredRows, block: range) -> StructuredArray:
    return entries_of(images.read(block.start, block.stop)["hash"], block.start)


def parts_of(hashes: npt.NDArray[np.uint8], first: int, band: int) -> StructuredArray:
    """[n] PART of [n, HASH_BYTES] hashes, whose rows are numbered from `first`."""
    parts = np.empty(len(hashes), PART)
    parts["row"] = first + np.arange(len(hashes))
    parts["code"], parts["certainty"] = view_codes(hashes)[:, 0], certainty(hashes)
    parts["weak"] = weak_bits(hashes, band)
    return parts


def entries_of(hashes: npt.NDArray[np.uint8], first: int) -> StructuredArray:
    """[n * VIEWS] ENTRY of [n, HASH_BYTES] hashes, whose rows are numbered from `first`."""
    entries = np.empty(len(hashes) * VIEWS, ENTRY)
    entries["code"] = view_codes(hashes).reshape(-1)
    entries["number"] = first * VIEWS + np.arange(len(entries))
    return entries


class Buckets:
    """The buckets of a band: a hash of the bits of the band, which keeps few of its own.

    Args:
        band: Which one.
        rows: How many images have views in them.
        spare_bits: More buckets than entries, so that few probes meet an entry by chance.

    Attributes:
        all: Numbers of all coarse buckets, each of neighbouring buckets.
    """

    def __init__(self, band: int, rows: int, spare_bits: int = 0) -> None:
        needed = (rows * VIEWS).bit_length()
        most = max(_MAX_BUCKET_BITS, needed - _CROWDED_BITS)
        bits = min(max(needed + spare_bits, 8), most)
        self._shift = np.uint64(64 - bits)
        self._coarse_bits = max(0, bits - _RANGE_BITS)
        self._mask = np.bitwise_or.reduce(bit_flags(BAND_POSITIONS[band]))
        self.all = range(1 << (bits - self._coarse_bits))

    def of(self, codes: UInt64Array) -> UInt64Array:
        """The bucket of each code."""
        return ((codes & self._mask) * _MULTIPLIER) >> self._shift

    def coarse(self, codes: UInt64Array) -> IntArray:
        """The coarse bucket of each code."""
        return (self.of(codes) >> np.uint64(self._coarse_bits)).astype(np.int64)

    def owner(self, codes: UInt64Array, ranges: int) -> IntArray:
        """The one of so many tasks that has the bucket of each code."""
        return self.coarse(codes) * ranges // len(self.all)

    def owned(self, number: int, ranges: int) -> range:
        """The coarse buckets that a task has."""
        begin, end = (-(-one * len(self.all) // ranges) for one in (number, number + 1))
        return range(begin, end)

    def ranges(
        self, entries: Sequence[Callable[[], StructuredArray]], some: range
    ) -> Iterator[tuple[range, int]]:
        """(buckets, entries) of ranges with a bounded number of entries, or one coarse bucket.

        Args:
            entries: See BandRows.
            some: The coarse buckets that they are in.
        """
        counts = np.zeros(len(some), np.int64)
        for read in entries:
            places = self.coarse(read()["code"]) - some.start
            counts += np.bincount(places, minlength=len(counts))
        ends = bounds_of(counts)
        first = 0
        while first < len(counts):
            most = ends[first] + bounds.TABLE_ENTRIES
            last = max(first + 1, int(np.searchsorted(ends, most, "right")) - 1)
            inside = (some.start + edge << self._coarse_bits for edge in (first, last))
            if ends[last] > ends[first]:
                yield range(*inside), int(ends[last] - ends[first])
            first = last


class _BucketTable:
    """The views of some images whose bits of a band are in a range of buckets.

    Args:
        entries: See BandRows.
        buckets: The buckets of the band.
        some: Which of them.
        count: How many entries these have.
    """

    def __init__(
        self,
        entries: Sequence[Callable[[], StructuredArray]],
        buckets: Buckets,
        some: range,
        count: int,
    ) -> None:
        self._buckets = buckets
        self._first = np.uint64(some.start)
        self._size = np.uint64(len(some))
        # Bucket and place in one number: sorting it is many times faster than an argsort.
        packed = np.empty(count, np.uint64)
        self._codes = np.empty(count, np.uint64)
        self._numbers = np.empty(count, np.int64)
        end = 0
        for read in entries:
            rows = read()
            own, bucket = self._inside(rows["code"])
            begin, end = end, end + len(own)
            packed[begin:end] = bucket << _ENTRY_BITS
            self._codes[begin:end] = rows["code"][own]
            self._numbers[begin:end] = rows["number"][own]
        packed |= np.arange(count, dtype=np.uint64)
        packed.sort()
        # Bucket b, counted from the first, is [starts[b], starts[b + 1]).
        self._starts = _run_edges(packed, len(some))
        order = packed.astype(np.uint32)
        del packed
        self._codes = self._codes[order]
        self._numbers = self._numbers[order]
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
        self._codes[places], self._numbers[places] = self._codes[order], self._numbers[order]

    def look_up(self, read: Callable[[], StructuredArray]) -> StructuredArray:
        """The candidates of a block of parts: rows of CANDIDATE.

        Args:
            read: Reads the block.
        """
        parts = read()
        probes = probes_of(parts)
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
        near = [np.zeros(0, CANDIDATE)]
        for first, last in itertools.pairwise([0, *pieces.tolist()]):
            places, probe = ranges(starts[first:last], sizes[first:last])
            part = inside[first + probe] % len(parts)
            near.append(self._weighed(parts, part, places))
        return best_views(np.concatenate(near))

    def _weighed(
        self, parts: StructuredArray, which: IntArray, places: IntArray
    ) -> StructuredArray:
        """The pairs of some of the parts, and the entries at places, that are near."""
        differences = self._codes[places] ^ parts["code"][which]
        # Few pass this test; the next one may take longer.
        few = np.flatnonzero(np.bitwise_count(differences) <= MAX_DISTANCE)
        likely = parts[which[few]]
        distances = _weigh(differences[few], likely["certainty"])
        wholes, views = np.divmod(self._numbers[places[few]], VIEWS)
        near = (distances <= MAX_DISTANCE) & (likely["row"] != wholes)
        return pack(likely["row"], wholes, distances, views)[near]

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


def _probes() -> list[tuple[int, int]]:
    """(a probe before it, the weak bit that it flips besides) of every probe but the first."""
    subsets = [
        subset
        for size in range(WEAK_BITS + 1)
        for subset in itertools.combinations(range(WEAK_BITS), size)
        if sum(subset) + size <= _RANK_SUM
    ]
    return [(subsets.index(subset[:-1]), subset[-1]) for subset in subsets[1:]]


_PROBES = _probes()


def probes_of(parts: StructuredArray) -> UInt64Array:
    """[probes * n] the codes that [n] PART are looked up by: first one of each, then the next."""
    flags = np.ascontiguousarray(bit_flags(parts["weak"].T))
    probes = np.empty((1 + len(_PROBES), len(parts)), np.uint64)
    probes[0] = parts["code"]
    for number, (before, rank) in enumerate(_PROBES, start=1):
        np.bitwise_xor(probes[before], flags[rank], out=probes[number])
    return probes.reshape(-1)


def _weigh(differences: UInt64Array, planes: UInt64Array) -> IntArray:
    """[k] the sum over the bits set, each counting 1 more than its certainty."""
    low, high = (np.bitwise_count(differences & plane).astype(np.int64) for plane in planes.T)
    return np.bitwise_count(differences) + low + 2 * high


def pack(
    parts: IntArray, wholes: IntArray, distances: IntArray, views: IntArray
) -> StructuredArray:
    """Rows of CANDIDATE: distance and view have 4 bits each."""
    rows = np.empty(len(parts), CANDIDATE)
    rows["part"] = parts
    rows["match"] = (wholes << 8) | (distances.clip(0, 15) << 4) | views
    return rows


def best_views(rows: StructuredArray) -> StructuredArray:
    """The nearest view of every pair, and of every part the NEAREST wholes; sorted.

    The best of some rows, joined with the best of others, have the best of all among them.
    """
    rows = rows[np.lexsort((rows["match"], rows["part"]))]
    rows = rows[run_starts(rows["part"], rows["match"] >> np.uint64(8))]
    part, match = rows["part"], rows["match"]
    order = np.lexsort((match, (match >> np.uint64(4)) & np.uint64(15), part))
    starts = run_starts(part[order])
    rank = np.arange(len(order)) - first_of_run(starts)
    return rows[np.sort(order[rank < NEAREST])]


def unpack(rows: StructuredArray) -> Candidates:
    """Rows of CANDIDATE as columns."""
    match = rows["match"].astype(np.int64)
    return Candidates(rows["part"], match >> 8, match & 15)
