"""Near duplicates among images, from the perceptual hashes and thumbnails in the sidecars.

Hashes are read once, and sorted by their content in a file:

1. Images with equal hashes are paired with one leader, so that a thousand copies (or a million
   blank pages) cost a thousand comparisons, not a million.
2. `candidates` finds pairs of similar hashes among the leaders and the rest.
3. `pair_verifier` compares the thumbnails of each pair.

Only pairs are held in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import BoolArray, IntArray, first_of_run, fixed_bytes, run_starts
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, NearPairs
from beam_jobs.dedup.images.candidates import CANDIDATE, find_candidates
from beam_jobs.dedup.images.hash_format import HASH_BYTES, HASHED, THUMBNAIL_BYTES, is_flat
from beam_jobs.dedup.images.pair_verifier import PairVerifier, Thumbnails
from beam_jobs.staging.reordering import RowFile, StructuredArray, rows_of_partition
from beam_jobs.staging.sidecars import Sidecars, rows_among
from beam_jobs.staging.stored import StoredRecords
from foundation.machine import usable_cores
from shard_format import mix

# The thumbnails of some records, in their order: [k, THUMBNAIL_BYTES] for [k] numbers.
FetchThumbnails = Callable[[IntArray], Thumbnails]

# Copies that are not cropped have 0.95 and more, 10 % crops 0.90 in 93 of 100 cases. The most
# similar of 156,520 pairs of different clothing photographs have 0.88, crops of them 0.895.
# docs/decisions/0007-near-duplicates.md has the whole table.
DEFAULT_THRESHOLD = 0.90

# Images with equal hashes that differ from their leader get another one, this many times; the rest
# are compared as candidates. More than one leader is rare: a hash has 1,000 bits.
_LEADERS = 4


def near_duplicates(sidecars: Sidecars, threshold: float, workers: int | None) -> NearPairs:
    """Pairs of images that are equal up to size, compression, tone and narrow crops.

    Permuting the records permutes the pairs; of images with the same hash and the same thumbnail,
    the one with the lowest number is the leader.

    Args:
        sidecars: All staged units; of exact duplicates one record is included.
        threshold: Least similarity of a pair, in (0, 1]: the correlation of the fine structure of
            luma after alignment. 1 finds little but equal thumbnails.
        workers: How many threads; None for one per usable core. The result is the same.
    """
    verifier = FetchedThumbnails(partial(_thumbnails, sidecars), threshold, workers)
    linked = []
    with closing(sidecars.row_file(HASHED)) as images:
        for rows in _by_content(sidecars):
            leaders, pairs = lead_repeats(rows, is_flat(rows["hash"]), verifier)
            images.append(leaders)
            linked += pairs
        linked += _verified(images, sidecars, verifier)
    return _merged(linked)


def near_earlier_ones(
    sidecars: Sidecars,
    records: IntArray,
    stored: StoredRecords,
    threshold: float,
    workers: int | None,
) -> NearPairs:
    """Pairs of a new image and one of an earlier generation.

    Args:
        sidecars: All staged units.
        records: [n] int64, numbers of the new records, ascending.
        stored: The earlier generations.
        threshold: See `near_duplicates`.
        workers: See `near_duplicates`.

    Returns:
        Pairs (number of the new record, row in `stored`).
    """
    count = sidecars.records  # an old row has this number more, so that it is no record

    def fetch(numbers: IntArray) -> Thumbnails:
        new, old = numbers[numbers < count], numbers[numbers >= count] - count
        column = stored.take(old, ["thumbnail"])["thumbnail"]
        return np.concatenate([_thumbnails(sidecars, new), fixed_bytes(column, THUMBNAIL_BYTES)])

    verifier = FetchedThumbnails(fetch, threshold, workers)
    flat: list[IntArray] = []
    with closing(sidecars.row_file(HASHED)) as images:
        begins = []
        for side in (_new_images(sidecars, records), _old_images(stored, count)):
            begins.append(images.count)
            flat_side = [np.zeros(0, np.int64)]
            for rows in side:
                is_blank = is_flat(rows["hash"])
                images.append(rows[~is_blank])
                flat_side.append(rows["record"][is_blank])
            flat.append(np.concatenate(flat_side))
        linked = list(_verified(images, sidecars, verifier, begins[1]))
    if all(map(len, flat)):
        shown, old_shown = map(verifier.contents, flat)
        order = np.argsort(old_shown, kind="stable")
        at = np.minimum(np.searchsorted(old_shown[order], shown), len(order) - 1)
        same = old_shown[order[at]] == shown
        equal = np.stack([flat[0][same], flat[1][order[at[same]]]], axis=1)
        linked.append(NearPairs(equal, np.ones(len(equal), np.float32)))
    near = _merged([NO_NEAR_PAIRS, *linked])
    near.pairs[:, 1] -= count
    return near


def _new_images(sidecars: Sidecars, records: IntArray) -> Iterator[StructuredArray]:
    for begin, table in sidecars:
        own, rows = rows_among(records, begin, table)
        hashes = fixed_bytes(table["perceptual_hash"], HASH_BYTES)[rows]
        yield hashed_rows(records[own], hashes)


def _old_images(stored: StoredRecords, first: int) -> Iterator[StructuredArray]:
    for table in stored.tables(["perceptual_hash"]):
        for start in range(0, len(table), bounds.PLANNED_ROWS):
            column = table["perceptual_hash"].slice(start, bounds.PLANNED_ROWS)
            yield hashed_rows(first + np.arange(len(column)), fixed_bytes(column, HASH_BYTES))
            first += len(column)


def hashed_rows(records: IntArray, hashes: npt.NDArray[np.uint8]) -> StructuredArray:
    """[n] rows of HASHED."""
    rows = np.empty(len(records), HASHED)
    rows["content"], rows["record"], rows["hash"] = content_numbers(hashes), records, hashes
    return rows


def _by_content(sidecars: Sidecars) -> Iterator[StructuredArray]:
    """Rows of HASHED of all images, in the order of content, those of a range of it at a time."""
    number = _partitions(sidecars.records)
    with closing(sidecars.partitions(HASHED, number)) as partitions:
        for begin, table in sidecars:
            included = np.flatnonzero(sidecars.included(begin, table))
            hashes = fixed_bytes(table["perceptual_hash"], HASH_BYTES)[included]
            rows = hashed_rows(begin + included, hashes)
            leading = (rows["content"] >> np.uint64(32)).astype(np.int64)
            partitions.add(leading * number >> 32, rows)
        for rows in partitions.take():
            yield rows[np.argsort(rows["content"], kind="stable")]


def _partitions(count: int) -> int:
    return max(1, -(-count // rows_of_partition(count)))


def _verified(
    images: RowFile, sidecars: Sidecars, verifier: FetchedThumbnails, old: int | None = None
) -> Iterator[NearPairs]:
    """The pairs of records that are similar, some at a time; see `find_candidates`."""
    number = _partitions(images.count)
    with closing(sidecars.partitions(CANDIDATE, number)) as partitions:
        for likely in find_candidates(images, partitions, number, verifier.threads, old):
            for start in range(0, len(likely.parts), bounds.FETCHED_PAIRS):
                block = slice(start, start + bounds.FETCHED_PAIRS)
                parts, wholes, views = (column[block] for column in likely)
                records = images.take(np.concatenate([parts, wholes]))["record"]
                yield verifier.verify(records[: len(parts)], records[len(parts) :], views)


def _thumbnails(sidecars: Sidecars, records: IntArray) -> Thumbnails:
    column = sidecars.take(records, ["thumbnail"])["thumbnail"]
    return fixed_bytes(column, THUMBNAIL_BYTES)


class ThumbnailComparison:
    """Compares thumbnails with several threads.

    Args:
        threshold: See `near_duplicates`.
        workers: See `near_duplicates`.

    Attributes:
        threads: How many work at a time.
        threshold: As it was passed.
    """

    def __init__(self, threshold: float, workers: int | None) -> None:
        self.threads = workers or math.ceil(usable_cores())
        self.threshold = threshold
        self._verifiers = [PairVerifier() for _ in range(self.threads)]

    def similarities(
        self, pool: Executor, parts: Thumbnails, wholes: Thumbnails, views: IntArray
    ) -> npt.NDArray[np.float64]:
        """[k] similarity of each part to its whole, see `PairVerifier.similarities`."""
        share = -(-len(parts) // self.threads)

        def compare(thread: int) -> npt.NDArray[np.float64]:
            own = slice(thread * share, (thread + 1) * share)
            verifier = self._verifiers[thread]
            return verifier.similarities(parts[own], wholes[own], views[own], self.threshold)

        return np.concatenate(list(pool.map(compare, range(self.threads))))


class FetchedThumbnails(ThumbnailComparison):
    """Fetches thumbnails a block at a time, and compares them.

    Args:
        fetch: From numbers of records, ascending, to their thumbnails.
        threshold: See `near_duplicates`.
        workers: See `near_duplicates`.
    """

    def __init__(self, fetch: FetchThumbnails, threshold: float, workers: int | None) -> None:
        super().__init__(threshold, workers)
        self._fetch = fetch

    def verify(self, parts: IntArray, wholes: IntArray, views: IntArray) -> NearPairs:
        """The candidates, given as records, that reach the threshold."""
        values = np.zeros(len(parts))
        with ThreadPoolExecutor(self.threads) as pool:
            for start in range(0, len(parts), bounds.FETCHED_PAIRS):
                block = slice(start, start + bounds.FETCHED_PAIRS)
                values[block] = self._compare(pool, parts[block], wholes[block], views[block])
        near = values >= self.threshold
        pairs = np.stack([parts[near], wholes[near]], axis=1)
        return NearPairs(pairs, values[near].astype(np.float32))

    def _compare(
        self, pool: Executor, parts: IntArray, wholes: IntArray, views: IntArray
    ) -> npt.NDArray[np.float64]:
        rows, places = np.unique(np.stack([parts, wholes]), return_inverse=True)
        part, whole = self._fetch(rows)[places.reshape(2, -1)]
        return self.similarities(pool, part, whole, views)

    def contents(self, records: IntArray) -> npt.NDArray[np.uint64]:
        """[k] content numbers of the thumbnails of records."""
        numbers = np.zeros(len(records), np.uint64)
        size = 2 * bounds.FETCHED_PAIRS
        for start in range(0, len(records), size):
            block = slice(start, start + size)
            numbers[block] = content_numbers(self._fetch(records[block]))
        return numbers


def lead_repeats(
    images: StructuredArray, flat: BoolArray, thumbnails: FetchedThumbnails
) -> tuple[StructuredArray, list[NearPairs]]:
    """The leaders and unpaired images in an order of content, and the pairs of all others.

    Flat images have no structure to compare, so they are near duplicates only if their thumbnails
    are equal, and are not among the returned rows.

    Args:
        images: [n] rows in the order of "content", then of "record"; equal hashes have one content.
        flat: [n] which are flat.
        thumbnails: Fetches and compares theirs.
    """
    contents, records = images["content"], images["record"]
    starts = run_starts(contents)
    alone = starts & np.append(starts[1:], True)
    repeated = np.flatnonzero(~alone)
    shown = thumbnails.contents(records[repeated])
    by_content = np.lexsort((shown, contents[repeated]))
    repeated, shown = repeated[by_content], shown[by_content]
    distinct = run_starts(contents[repeated], shown)
    equal = np.stack([repeated[first_of_run(distinct)], repeated], axis=1)[~distinct]
    linked = [NearPairs(records[equal], np.ones(len(equal), np.float32))]

    rest = repeated[distinct]
    rest = rest[~flat[rest]]
    leaders = []
    for _ in range(_LEADERS):
        first = run_starts(contents[rest])
        leaders.append(rest[first])
        others = rest[~first]
        wholes = rest[first_of_run(first)][~first]
        views = np.zeros(len(others), np.int64)
        near = thumbnails.verify(records[others], records[wholes], views)
        linked.append(near)
        rest = others[~np.isin(records[others], near.pairs[:, 0])]
    # Rows with equal hashes are in the order of their leaders, which is one of content; the sort is
    # stable.
    rows = np.concatenate([np.flatnonzero(alone & ~flat), *leaders, rest])
    return images[rows[np.argsort(contents[rows], kind="stable")]], linked


def _merged(found: list[NearPairs]) -> NearPairs:
    """All pairs once, with the greater of the similarities of the two directions."""
    pairs = np.sort(np.concatenate([part.pairs for part in found]), axis=1)
    similarity = np.concatenate([part.similarity for part in found])
    order = np.lexsort((-similarity, pairs[:, 1], pairs[:, 0]))
    pairs, similarity = pairs[order], similarity[order]
    first = run_starts(pairs[:, 0], pairs[:, 1])
    return NearPairs(pairs[first], similarity[first])


def content_numbers(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """[n] 64-bit hashes of rows [n, bytes]; rows that differ share one with chance 2**-64."""
    numbers = np.zeros(len(rows), np.uint64)
    for start in range(0, len(rows), bounds.HASHED_THUMBNAILS):
        block = rows[start : start + bounds.HASHED_THUMBNAILS]
        words = np.zeros((len(block), -(-block.shape[1] // 8)), "<u8")
        words.view(np.uint8)[:, : block.shape[1]] = block
        for word in words.T:
            numbers[start : start + len(block)] = mix(numbers[start : start + len(block)] ^ word)
    return numbers
