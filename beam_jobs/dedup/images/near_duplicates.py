"""Near duplicates among images, from the perceptual hashes and thumbnails in the sidecars.

`near_duplicates` reads the sidecars, `near_pairs` finds the pairs:

1. Images with equal hashes are paired with one leader, so that a thousand copies (or a million
   blank pages) cost a thousand comparisons, not a million.
2. `candidates` finds pairs of similar hashes among the leaders and the rest.
3. `pair_verifier` compares the thumbnails of each pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import IntArray, first_of_run, fixed_bytes, run_starts
from beam_jobs.dedup.clusters import NearPairs
from beam_jobs.dedup.images.candidates import (
    MAX_ROWS,
    Candidates,
    find_candidates,
    find_candidates_across,
)
from beam_jobs.dedup.images.hash_format import HASH_BYTES, THUMBNAIL_BYTES, is_flat
from beam_jobs.dedup.images.pair_verifier import PairVerifier, Thumbnails
from beam_jobs.staging.sidecars import Sidecars, rows_among
from beam_jobs.staging.stored import StoredRecords
from foundation.machine import usable_cores
from shard_format import UsageError, mix

# The thumbnails of these rows, in the given order: [k, THUMBNAIL_BYTES] for [k] rows.
FetchThumbnails = Callable[[IntArray], Thumbnails]

# Copies that are not cropped have 0.95 and more, 10 % crops 0.90 in 93 of 100 cases. The most
# similar of 156,520 pairs of different clothing photographs have 0.88, crops of them 0.895.
# docs/decisions/0007-near-duplicates.md has the whole table.
DEFAULT_THRESHOLD = 0.90

# Images with equal hashes that differ from their leader get another one, this many times; the rest
# are compared as candidates. More than one leader is rare: a hash has 1,000 bits.
_LEADERS = 4


def near_duplicates(
    sidecars: Sidecars, records: IntArray, threshold: float, workers: int | None
) -> NearPairs:
    """Near duplicates among some records.

    Args:
        sidecars: All staged units.
        records: [n] int64, numbers of records, ascending; one of each set of exact duplicates.
        threshold: See `near_pairs`.
        workers: How many threads; None for one per usable core.
    """
    hashes, thumbnails = _staged(sidecars, records)
    near = near_pairs(hashes, thumbnails, threshold, workers or math.ceil(usable_cores()))
    return NearPairs(records[near.pairs], near.similarity)


def near_earlier_ones(
    sidecars: Sidecars,
    records: IntArray,
    stored: StoredRecords,
    threshold: float,
    workers: int | None,
) -> NearPairs:
    """Pairs (number of a new record, row in `stored`); see `near_duplicates`."""
    hashes, thumbnails = _staged(sidecars, records)
    threads = workers or math.ceil(usable_cores())
    pairs, similarity = near_to_stored(hashes, thumbnails, stored, threshold, threads)
    return NearPairs(np.stack([records[pairs[:, 0]], pairs[:, 1]], axis=1), similarity)


def _staged(sidecars: Sidecars, records: IntArray) -> tuple[npt.NDArray[np.uint8], FetchThumbnails]:
    """[n, HASH_BYTES] of some records, and their thumbnails by row."""
    hashes = np.empty((len(records), HASH_BYTES), np.uint8)
    for begin, table in sidecars:
        own, rows = rows_among(records, begin, table)
        hashes[own] = fixed_bytes(table["perceptual_hash"], HASH_BYTES)[rows]

    def thumbnails(rows: IntArray) -> npt.NDArray[np.uint8]:
        column = sidecars.take(records[rows], ["thumbnail"])["thumbnail"]
        return fixed_bytes(column, THUMBNAIL_BYTES)

    return hashes, thumbnails


def near_pairs(
    hashes: npt.NDArray[np.uint8],
    thumbnails: FetchThumbnails,
    threshold: float = DEFAULT_THRESHOLD,
    threads: int = 1,
) -> NearPairs:
    """Pairs of images that are equal up to size, compression, tone and narrow crops.

    Permuting the rows permutes the pairs; of rows with the same hash and the same thumbnail, the
    lowest is the leader.

    Args:
        hashes: [n, HASH_BYTES], as `images.perceptual_hash` computes them; n < 2**28.
        thumbnails: Fetches thumbnails by row, a block at a time and only those that are needed.
            Called from one thread at a time.
        threshold: Least similarity of a pair, in (0, 1]: the correlation of the fine structure of
            luma after alignment. 1 finds little but equal thumbnails.
        threads: How many work at a time; the result is the same.

    Raises:
        UsageError: There are too many images.
    """
    if len(hashes) >= MAX_ROWS:
        raise UsageError(
            f"{len(hashes):,} images are too many to find near duplicates: there may be fewer than "
            f"{MAX_ROWS:,}. Split the corpus, or choose --dedup exact."
        )
    verifier = _Thumbnails(thumbnails, threshold, threads)
    rows, linked = _lead_repeats(hashes, verifier)
    candidates = find_candidates(hashes[rows], threads)
    candidates = Candidates(rows[candidates.parts], rows[candidates.wholes], candidates.views)
    return _merged([*linked, verifier.verify(candidates)])


def near_to_stored(
    hashes: npt.NDArray[np.uint8],
    thumbnails: FetchThumbnails,
    stored: StoredRecords,
    threshold: float,
    threads: int,
) -> NearPairs:
    """Pairs of a new image and one of an earlier generation.

    Args:
        hashes: [n, HASH_BYTES] of the new images.
        thumbnails: Fetches their thumbnails by row.
        stored: The earlier generations.
        threshold: See `near_pairs`.
        threads: How many work at a time.

    Returns:
        Pairs (row of the new image, row in `stored`).
    """
    old_hashes = fixed_bytes(stored.column("perceptual_hash"), HASH_BYTES)
    if len(hashes) + len(old_hashes) >= MAX_ROWS:
        raise UsageError(
            f"{len(hashes) + len(old_hashes):,} images are too many to find near duplicates: there "
            f"may be fewer than {MAX_ROWS:,}. Begin a new set."
        )
    count = len(hashes)

    def fetch(rows: IntArray) -> Thumbnails:
        new, old = rows[rows < count], rows[rows >= count] - count
        column = stored.take(old, ["thumbnail"])["thumbnail"]
        return np.concatenate([thumbnails(new), fixed_bytes(column, THUMBNAIL_BYTES)])

    verifier = _Thumbnails(fetch, threshold, threads)
    some, old_some = (np.flatnonzero(~is_flat(one)) for one in (hashes, old_hashes))
    likely = find_candidates_across(hashes[some], old_hashes[old_some], threads)
    rows = np.concatenate([some, old_some + count])
    linked = [verifier.verify(Candidates(rows[likely.parts], rows[likely.wholes], likely.views))]
    flat, old_flat = (np.flatnonzero(is_flat(one)) for one in (hashes, old_hashes))
    if len(flat) and len(old_flat):
        shown, old_shown = verifier.contents(flat), verifier.contents(old_flat + count)
        order = np.argsort(old_shown, kind="stable")
        at = np.minimum(np.searchsorted(old_shown[order], shown), len(order) - 1)
        same = old_shown[order[at]] == shown
        equal = np.stack([flat[same], old_flat[order[at[same]]] + count], axis=1)
        linked.append(NearPairs(equal, np.ones(len(equal), np.float32)))
    pairs, similarity = _merged(linked)
    pairs[:, 1] -= count
    return NearPairs(pairs, similarity)


class _Thumbnails:
    """Fetches thumbnails a block at a time, and compares them."""

    def __init__(self, fetch: FetchThumbnails, threshold: float, threads: int) -> None:
        self._fetch = fetch
        self._threshold = threshold
        self._verifiers = [PairVerifier() for _ in range(threads)]

    def verify(self, candidates: Candidates) -> NearPairs:
        """The candidates, given as rows, that reach the threshold."""
        parts, wholes, views = candidates
        values = np.zeros(len(parts))
        with ThreadPoolExecutor(len(self._verifiers)) as pool:
            for start in range(0, len(parts), bounds.FETCHED_PAIRS):
                block = slice(start, start + bounds.FETCHED_PAIRS)
                values[block] = self._compare(pool, parts[block], wholes[block], views[block])
        near = values >= self._threshold
        pairs = np.stack([parts[near], wholes[near]], axis=1)
        return NearPairs(pairs, values[near].astype(np.float32))

    def _compare(
        self, pool: ThreadPoolExecutor, parts: IntArray, wholes: IntArray, views: IntArray
    ) -> npt.NDArray[np.float64]:
        rows, places = np.unique(np.stack([parts, wholes]), return_inverse=True)
        thumbnails = self._fetch(rows)
        share = -(-len(parts) // len(self._verifiers))

        def compare(thread: int) -> npt.NDArray[np.float64]:
            own = slice(thread * share, (thread + 1) * share)
            part, whole = (thumbnails[side[own]] for side in places.reshape(2, -1))
            return self._verifiers[thread].similarities(part, whole, views[own], self._threshold)

        return np.concatenate(list(pool.map(compare, range(len(self._verifiers)))))

    def contents(self, rows: IntArray) -> npt.NDArray[np.uint64]:
        """[k] content numbers of the thumbnails of rows."""
        numbers = np.zeros(len(rows), np.uint64)
        size = 2 * bounds.FETCHED_PAIRS
        for start in range(0, len(rows), size):
            block = slice(start, start + size)
            numbers[block] = content_numbers(self._fetch(rows[block]))
        return numbers


def _lead_repeats(
    hashes: npt.NDArray[np.uint8], thumbnails: _Thumbnails
) -> tuple[IntArray, list[NearPairs]]:
    """The leaders and unpaired rows in an order of content, and the pairs of all other rows.

    Flat images have no structure to compare, so they are near duplicates only if their thumbnails
    are equal, and are not among the returned rows.
    """
    contents = content_numbers(hashes)
    order = np.argsort(contents, kind="stable")
    starts = run_starts(contents[order])
    alone = starts & np.append(starts[1:], True)
    repeated = order[~alone]
    shown = thumbnails.contents(repeated)
    by_content = np.lexsort((shown, contents[repeated]))
    repeated, shown = repeated[by_content], shown[by_content]
    distinct = run_starts(contents[repeated], shown)
    equal = np.stack([repeated[first_of_run(distinct)], repeated], axis=1)[~distinct]
    linked = [NearPairs(equal, np.ones(len(equal), np.float32))]

    rest = repeated[distinct]
    rest = rest[~is_flat(hashes[rest])]
    leaders = []
    for _ in range(_LEADERS):
        first = run_starts(contents[rest])
        leaders.append(rest[first])
        others = rest[~first]
        views = np.zeros(len(others), np.int64)
        pairs = thumbnails.verify(Candidates(others, rest[first_of_run(first)][~first], views))
        linked.append(pairs)
        rest = others[~np.isin(others, pairs.pairs[:, 0])]
    singles = order[alone]
    singles = singles[~is_flat(hashes[singles])]
    # Rows with equal hashes are in the order of their leaders, which is one of content; the sort is
    # stable.
    rows = np.concatenate([singles, *leaders, rest])
    return rows[np.argsort(contents[rows], kind="stable")], linked


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
