"""Near-duplicates: from perceptual hashes and thumbnails to pairs and their similarity.

    repeats     pictures with one and the same hash: linked to a leader, so that a thousand copies
                (or a million blank pages) cost a thousand comparisons, not a million
    candidates  one picture per hash: which two are worth a second look (`candidates`)
    pairs       the second look, on aligned thumbnails (`confirmation`)

`union_find.components` makes clusters of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.images.candidates import MAX_ROWS, Candidates, find_candidates
from beam_jobs.dedup.images.hash_format import is_flat
from beam_jobs.dedup.images.ordering import content_numbers, first_of_run, run_starts
from beam_jobs.dedup.images.pair_verifier import SecondLook, Thumbnails
from shard_format import UsageError

# The thumbnails of these rows, in the given order: [k, THUMBNAIL_BYTES] for [k] rows.
FetchThumbnails = Callable[[IntArray], Thumbnails]

# Copies that are not cropped come to 0.95 and more, 10 % crops to 0.90 in 93 of 100 cases. The most
# alike of 156,520 pairs of different clothing photographs come to 0.88, crops of them to 0.895.
# docs/decisions/0007-near-duplicates.md has the whole table.
DEFAULT_THRESHOLD = 0.90

_FETCH_PAIRS = 1 << 13  # 18 MiB of thumbnails
_FETCH_ROWS = 2 * _FETCH_PAIRS
# Pictures of one hash that are unlike their leader get another one, this many times. Then the
# candidates sort them out. More than one leader is rare: a hash has 1,000 bits.
_LEADERS = 4


class NearPairs(NamedTuple):
    """Pictures that are near-duplicates of each other.

    Attributes:
        pairs: [m, 2] int64 rows, the lower one first, sorted, none twice.
        similarity: [m] float32, from the threshold to 1.
    """

    pairs: IntArray
    similarity: npt.NDArray[np.float32]


def near_pairs(
    hashes: npt.NDArray[np.uint8],
    thumbnails: FetchThumbnails,
    threshold: float = DEFAULT_THRESHOLD,
    threads: int = 1,
) -> NearPairs:
    """The pairs of pictures that show the same, up to size, compression, tone and narrow crops.

    Not all pairs of a cluster are given, but enough to connect it. Permuting the rows permutes the
    pairs; among rows with the same hash and the same thumbnail, which nothing tells apart, the
    lowest is the one to which the others are linked.

    Args:
        hashes: [n, HASH_BYTES], as `images.perception.perceive` makes them; n up to 2**28.
        thumbnails: Fetches thumbnails by row, a block at a time and only those that are needed.
            Called from one thread at a time.
        threshold: Least similarity of a pair, in (0, 1]: the correlation of the fine structure of
            luma after alignment. 1 leaves little but equal thumbnails.
        threads: How many work at a time; the result is the same.

    Raises:
        UsageError: The threshold is out of range, or there are too many pictures.
    """
    if not 0 < threshold <= 1:
        raise UsageError(
            f"--near-threshold must be above 0 and at most 1, got {threshold}. Try "
            f"{DEFAULT_THRESHOLD}."
        )
    if len(hashes) >= MAX_ROWS:
        raise UsageError(
            f"near-duplicates can be found among fewer than {MAX_ROWS:,} pictures, got "
            f"{len(hashes):,}. Split the corpus, or turn near-duplicates off."
        )
    looks = _Thumbnails(thumbnails, threshold, threads)
    rows, linked = _lead_repeats(hashes, looks)
    found = find_candidates(hashes[rows], threads)
    found = Candidates(rows[found.parts], rows[found.wholes], found.views)
    return _merged([*linked, looks.confirm(found)])


class _Thumbnails:
    """Fetches thumbnails a block at a time, and compares them."""

    def __init__(self, fetch: FetchThumbnails, threshold: float, threads: int) -> None:
        self._fetch = fetch
        self._threshold = threshold
        self._looks = [SecondLook() for _ in range(threads)]

    def confirm(self, candidates: Candidates) -> NearPairs:
        """Those of the candidates, given as rows, that reach the threshold."""
        parts, wholes, views = candidates
        values = np.zeros(len(parts))
        with ThreadPoolExecutor(len(self._looks)) as pool:
            for start in range(0, len(parts), _FETCH_PAIRS):
                block = slice(start, start + _FETCH_PAIRS)
                values[block] = self._compare(pool, parts[block], wholes[block], views[block])
        near = values >= self._threshold
        pairs = np.stack([parts[near], wholes[near]], axis=1)
        return NearPairs(pairs, values[near].astype(np.float32))

    def _compare(
        self, pool: ThreadPoolExecutor, parts: IntArray, wholes: IntArray, views: IntArray
    ) -> npt.NDArray[np.float64]:
        rows, places = np.unique(np.stack([parts, wholes]), return_inverse=True)
        thumbnails = self._fetch(rows)
        share = -(-len(parts) // len(self._looks))

        def compare(thread: int) -> npt.NDArray[np.float64]:
            own = slice(thread * share, (thread + 1) * share)
            part, whole = (thumbnails[side[own]] for side in places.reshape(2, -1))
            return self._looks[thread].similarities(part, whole, views[own], self._threshold)

        return np.concatenate(list(pool.map(compare, range(len(self._looks)))))

    def contents(self, rows: IntArray) -> npt.NDArray[np.uint64]:
        """[k] content numbers of the thumbnails of rows."""
        numbers = np.zeros(len(rows), np.uint64)
        for start in range(0, len(rows), _FETCH_ROWS):
            block = slice(start, start + _FETCH_ROWS)
            numbers[block] = content_numbers(self._fetch(rows[block]))
        return numbers


def _lead_repeats(
    hashes: npt.NDArray[np.uint8], thumbnails: _Thumbnails
) -> tuple[IntArray, list[NearPairs]]:
    """Rows that stand for all others, in an order of content, and the pairs that link the others.

    Flat pictures say nothing through their structure, so they are near-duplicates only if their
    thumbnails are equal, and stand for nobody else.
    """
    contents = content_numbers(hashes)
    order = np.argsort(contents, kind="stable")
    starts = run_starts(contents[order])
    alone = starts & np.append(starts[1:], True)
    repeated = order[~alone]
    looks = thumbnails.contents(repeated)
    by_content = np.lexsort((looks, contents[repeated]))
    repeated, looks = repeated[by_content], looks[by_content]
    distinct = run_starts(contents[repeated], looks)
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
        pairs = thumbnails.confirm(Candidates(others, rest[first_of_run(first)][~first], views))
        linked.append(pairs)
        rest = others[~np.isin(others, pairs.pairs[:, 0])]
    singles = order[alone]
    singles = singles[~is_flat(hashes[singles])]
    # Rows of one hash come in the order of leading, which is one of content; the sort is stable.
    rows = np.concatenate([singles, *leaders, rest])
    return rows[np.argsort(contents[rows], kind="stable")], linked


def _merged(found: list[NearPairs]) -> NearPairs:
    """All pairs once, with the greater of the similarities of the two directions."""
    pairs = np.sort(np.concatenate([part.pairs for part in found]), axis=1)
    similarity = np.concatenate([part.similarity for part in found])
    order = np.lexsort((-similarity, pairs[:, 1], pairs[:, 0]))
    pairs, similarity = pairs[order], similarity[order]
    first = np.ones(len(pairs), np.bool_)
    first[1:] = np.any(pairs[1:] != pairs[:-1], axis=1)
    return NearPairs(pairs[first], similarity[first])
