"""Near duplicates among documents in rounds; `near_duplicates` says what is done.

1. Keys of all bands go to their ranges (41 bytes for each of a document, of which there are 21 at
   the default threshold).
2. A range of keys makes candidates of the documents that share one, and sends them to the range of
   units that has the first document of each,
3. which sends its shingles to the range of the second one (4.4 bytes a shingle, once for a document
   and range),
4. where the similarity is computed.

One worker does not compare what earlier bands have connected. Here all candidates are compared, up
to 6 for each band of a document, and those that one worker skips are left out at the end: the turn
of a pair is the first band in which it is a candidate.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, fixed_bytes, ranges, repeated, run_starts
from beam_jobs.dedup.near_rounds import (
    PAIR,
    NearResult,
    NearRound,
    NearSearch,
    NearTask,
    distinct_pairs,
    pairs_of,
)
from beam_jobs.dedup.text.candidates import (
    BUCKET_ROWS,
    Bands,
    band_keys,
    bucket_pairs,
    choose_bands,
)
from beam_jobs.dedup.text.near_duplicates import (
    can_be_similar,
    compared_in_pieces,
    shingle_counts,
    shingles_of,
    signatures_of,
    usable_threads,
)
from beam_jobs.dedup.text.shingles import Shingles, jaccard_across
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars

_KEYS, _CANDIDATES, _COMPARED, _SHINGLES = "band-keys", "candidates", "compared", "shingles"
_VERIFIED_PAIRS = "verified-pairs"  # these are all exchanges

_BANDED = np.dtype([*BUCKET_ROWS.descr, ("band", np.uint8)])
# A candidate, and how many shingles its documents have.
_SIZED = np.dtype([*PAIR.descr, ("first_size", np.int64), ("second_size", np.int64)])
# Some shingles of a document; the last row of one may have fewer.
_ROW_SHINGLES = 30
_SHINGLE_ROW = np.dtype(
    [("record", np.int64), ("size", np.int64), ("hashes", np.uint32, (_ROW_SHINGLES,))]
)


def near_search(threshold: float, workers: int | None) -> NearSearch:
    """How near duplicates among documents are found in rounds; see `near_duplicates`."""
    cut = choose_bands(threshold)
    rounds = [
        NearRound("SendKeys", partial(_send_keys, cut)),  # units
        NearRound("FindCandidates", partial(_find_candidates, cut, threshold)),  # keys
        NearRound("SendShingles", _send_shingles),  # units
        NearRound("VerifyPairs", partial(_verify_pairs, threshold, workers)),
    ]
    return NearSearch(rounds, (_VERIFIED_PAIRS,))


def _send_keys(cut: Bands, task: NearTask) -> NearResult:
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    sidecars = task.open_units()
    with files.sent(_KEYS, number, _BANDED, sizes) as by_key:
        for begin, table in sidecars:
            counts = shingle_counts(table)
            kept = np.flatnonzero(sidecars.included(begin, table) & (counts > 0))
            signatures = signatures_of(table)[kept]
            rows = np.empty(len(kept), _BANDED)
            rows["record"] = int(files.begins[number]) + begin + kept
            rows["size"] = counts[kept]
            rows["fingerprint"] = fixed_bytes(table["fingerprint"], 16).view("<u8")[kept, 0]
            rows["tie_break"] = first = band_keys(signatures, cut, 0)
            for band in range(cut.bands):
                rows["key"], rows["band"] = rows["tie_break"], band
                last = band == cut.bands - 1
                rows["tie_break"] = first if last else band_keys(signatures, cut, band + 1)
                leading = (rows["key"] >> np.uint64(32)).astype(np.int64)
                by_key.add(leading * files.ranges >> 32, rows.copy())
    return NearResult(sizes, {})


def _find_candidates(cut: Bands, threshold: float, task: NearTask) -> NearResult:
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    received = files.exchange(_KEYS).count(number, files.ranges, _BANDED)
    parts = max(1, -(-received // (cut.bands * bounds.MOST_PARTITION_ROWS)))
    with (
        files.partitions(_BANDED, cut.bands * parts) as by_band,
        files.sent(_CANDIDATES, number, _SIZED, sizes) as sent,
    ):
        for _, rows in files.received(_KEYS, number, _BANDED):
            part = (rows["key"] & np.uint64(0xFFFFFFFF)).astype(np.int64) * parts >> 32
            by_band.add(rows["band"].astype(np.int64) * parts + part, rows)
        for rows in by_band.take():
            rows = rows[repeated(rows["key"])]
            ends = bucket_pairs(rows)
            ends = ends[can_be_similar(rows["size"][ends], threshold)]
            one, other = rows["record"][ends].T
            band = rows["band"][ends[:, 0]].astype(np.int64)
            pairs = _with_sizes(pairs_of(one, other, 0, band), one, rows["size"][ends])
            sent.add(files.sources(pairs["first"]), pairs)
    return NearResult(sizes, {})


def _with_sizes(pairs: StructuredArray, one: IntArray, counts: IntArray) -> StructuredArray:
    """[n] _SIZED of [n] PAIR, and [n, 2] numbers of shingles, first of the records `one`."""
    sized = np.empty(len(pairs), _SIZED)
    for name in PAIR.names or ():
        sized[name] = pairs[name]
    turned = one != pairs["first"]
    sized["first_size"] = np.where(turned, counts[:, 1], counts[:, 0])
    sized["second_size"] = np.where(turned, counts[:, 0], counts[:, 1])
    return sized


def _send_shingles(task: NearTask) -> NearResult:
    """Sends the candidates of a range of units, and the shingles of their first documents."""
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    begin, end = files.begins[number : number + 2].tolist()
    received = files.exchange(_CANDIDATES).count(number, files.ranges, _SIZED)
    parts = max(1, -(-received // bounds.RECEIVED_CANDIDATES))
    sidecars = task.open_units()
    with (
        files.partitions(_SIZED, parts) as by_first,
        files.sent(_COMPARED, number, _SIZED, sizes) as compared,
        files.sent(_SHINGLES, number, _SHINGLE_ROW, sizes) as sent,
    ):
        for _, pairs in files.received(_CANDIDATES, number, _SIZED):
            by_first.add((pairs["first"] - begin) * parts // (end - begin), pairs)
        for pairs in map(distinct_pairs, by_first.take()):
            ranged = files.sources(pairs["second"])
            compared.add(ranged, pairs)
            asked = np.unique(np.stack([pairs["first"], ranged], axis=1), axis=0)
            records, first = np.unique(pairs["first"], return_index=True)
            for some in _pieces(pairs["first_size"][first]):
                rows, begins = _shingle_rows(sidecars, records[some], begin)
                own = slice(*np.searchsorted(asked[:, 0], records[some][[0, -1]] + [0, 1]))
                at = np.searchsorted(records[some], asked[own, 0])
                places, which = ranges(begins[at], np.diff(begins)[at])
                sent.add(asked[own, 1][which], rows[places])
    return NearResult(sizes, {})


def _pieces(counts: IntArray) -> Iterator[slice]:
    """Neighbours with a bounded number of shingles together, or one document."""
    edges = np.flatnonzero(np.diff(np.cumsum(counts) // bounds.VERIFIED_SHINGLES)) + 1
    for first, last in itertools.pairwise([0, *edges.tolist(), len(counts)]):
        if last > first:
            yield slice(first, last)


def _shingle_rows(
    sidecars: Sidecars, records: IntArray, begin: int
) -> tuple[StructuredArray, IntArray]:
    """(_SHINGLE_ROW of some records, [n + 1] where those of each begin)."""
    sets = shingles_of(sidecars, records - begin)
    counts = np.diff(sets.begins)
    needed = -(-counts // _ROW_SHINGLES)
    begins = bounds_of(needed)
    rows = np.zeros(int(begins[-1]), _SHINGLE_ROW)
    rows["record"], rows["size"] = np.repeat(records, needed), np.repeat(counts, needed)
    places, _ = ranges(begins[:-1] * _ROW_SHINGLES, counts)
    own, _ = ranges(sets.begins[:-1], counts)
    hashes = np.zeros(len(rows) * _ROW_SHINGLES, np.uint32)
    hashes[places] = sets.hashes[own]
    rows["hashes"] = hashes.reshape(-1, _ROW_SHINGLES)
    return rows, begins


def _verify_pairs(threshold: float, workers: int | None, task: NearTask) -> NearResult:
    """Compares the documents of a range of units with those that they may be equal to."""
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    received = files.exchange(_SHINGLES).count(number, files.ranges, _SHINGLE_ROW)
    parts = max(1, -(-received * _ROW_SHINGLES // bounds.RECEIVED_SHINGLES))
    comparison = partial(_similarities, task.open_units(), int(files.begins[number]))
    with (
        files.partitions(_SIZED, parts) as by_first,
        files.partitions(_SHINGLE_ROW, parts) as sets,
        files.sent(_VERIFIED_PAIRS, number, PAIR, sizes) as sent,
    ):
        for _, pairs in files.received(_COMPARED, number, _SIZED):
            by_first.add(pairs["first"] % parts, pairs)
        for _, rows in files.received(_SHINGLES, number, _SHINGLE_ROW):
            sets.add(rows["record"] % parts, rows)
        for pairs, rows in zip(by_first.take(), sets.take(), strict=True):
            counts = pairs["first_size"] + pairs["second_size"]
            compare = partial(comparison, *_sets_of(rows))
            similarity = compared_in_pieces(pairs, counts, compare, usable_threads(workers))
            near = pairs[similarity >= threshold]
            verified = pairs_of(
                near["first"],
                near["second"],
                similarity[similarity >= threshold].astype(np.float32),
                near["turn"],
            )
            sent.add(files.sources(verified["first"]), verified)
    return NearResult(sizes, {})


def _sets_of(rows: StructuredArray) -> tuple[IntArray, Shingles]:
    """([n] records, ascending, their shingles) of [m] _SHINGLE_ROW."""
    rows = rows[np.argsort(rows["record"], kind="stable")]
    first = np.flatnonzero(run_starts(rows["record"]))
    counts = rows["size"][first]
    places, _ = ranges(first * _ROW_SHINGLES, counts)
    return rows["record"][first], Shingles(rows["hashes"].reshape(-1)[places], bounds_of(counts))


def _similarities(
    sidecars: Sidecars, begin: int, records: IntArray, sets: Shingles, pairs: StructuredArray
) -> npt.NDArray[np.float64]:
    """[k] similarity of [k] _SIZED, of which the shingles of the first documents are given."""
    first, places = np.unique(pairs["first"], return_inverse=True)
    second, second_places = np.unique(pairs["second"], return_inverse=True)
    at = np.searchsorted(records, first)
    counts = np.diff(sets.begins)[at]
    own, _ = ranges(sets.begins[:-1][at], counts)
    one = Shingles(sets.hashes[own], bounds_of(counts))
    other = shingles_of(sidecars, second - begin)
    return jaccard_across(one, other, np.stack([places, second_places], axis=1))
