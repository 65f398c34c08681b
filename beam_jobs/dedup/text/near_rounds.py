"""Near duplicates among documents in rounds; `near_duplicates` says what is done.

1. Keys of all bands go to their ranges (41 bytes for each of a document, of which there are 21 at
   the default threshold).
2. A range of keys makes candidates of the documents that share one, and sends them to the range of
   units that has the first of both, which is paired with several of them,
3. which sends its shingles to the range of the other one (4.5 bytes a shingle, once for a document
   and range),
4. where the similarity is computed.

One worker does not compare what earlier bands have connected. Here all candidates are compared, up
to 6 for each band of a document, and those that one worker skips are left out at the end: the turn
of a pair is the first band in which it is a candidate.
"""

from __future__ import annotations

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
    pieces_of,
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
# A candidate: the document that is paired with several of its bucket comes first, and sends its
# shingles to the others. The numbers of shingles of both, and the band.
_CANDIDATE = np.dtype(
    [
        ("sender", np.int64),
        ("receiver", np.int64),
        ("sender_size", np.int64),
        ("receiver_size", np.int64),
        ("turn", np.int16),
    ]
)
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
        files.sent(_CANDIDATES, number, _CANDIDATE, sizes) as sent,
    ):
        for _, rows in files.received(_KEYS, number, _BANDED):
            part = (rows["key"] & np.uint64(0xFFFFFFFF)).astype(np.int64) * parts >> 32
            by_band.add(rows["band"].astype(np.int64) * parts + part, rows)
        for rows in by_band.take():
            rows = rows[repeated(rows["key"])]
            ends = bucket_pairs(rows)
            ends = ends[can_be_similar(rows["size"][ends], threshold)]
            pairs = np.empty(len(ends), _CANDIDATE)
            pairs["sender"], pairs["receiver"] = rows["record"][ends].T
            pairs["sender_size"], pairs["receiver_size"] = rows["size"][ends].T
            pairs["turn"] = rows["band"][ends[:, 0]]
            sent.add(files.sources(pairs["sender"]), pairs)
    return NearResult(sizes, {})


def _send_shingles(task: NearTask) -> NearResult:
    """Sends the candidates of a range of units, and the shingles of the first one of each."""
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    begin, end = files.begins[number : number + 2].tolist()
    received = files.exchange(_CANDIDATES).count(number, files.ranges, _CANDIDATE)
    parts = max(1, -(-received // bounds.RECEIVED_CANDIDATES))
    sidecars = task.open_units()
    with (
        files.partitions(_CANDIDATE, parts) as by_sender,
        files.sent(_COMPARED, number, _CANDIDATE, sizes) as compared,
        files.sent(_SHINGLES, number, _SHINGLE_ROW, sizes) as sent,
    ):
        for _, pairs in files.received(_CANDIDATES, number, _CANDIDATE):
            by_sender.add((pairs["sender"] - begin) * parts // (end - begin), pairs)
        for pairs in map(_in_first_band, by_sender.take()):
            ranged = files.sources(pairs["receiver"])
            compared.add(ranged, pairs)
            asked = np.unique(pairs["sender"] * files.ranges + ranged)
            to, asked = asked % files.ranges, asked // files.ranges
            records, first = np.unique(pairs["sender"], return_index=True)
            for some in pieces_of(pairs["sender_size"][first]):
                rows, begins = _shingle_rows(sidecars, records[some], begin)
                own = slice(*np.searchsorted(asked, records[some][[0, -1]] + [0, 1]))
                at = np.searchsorted(records[some], asked[own])
                places, which = ranges(begins[at], np.diff(begins)[at])
                sent.add(to[own][which], rows[places])
    return NearResult(sizes, {})


def _in_first_band(pairs: StructuredArray) -> StructuredArray:
    """Every candidate once, in the first band that has it."""
    pairs = pairs[np.lexsort((pairs["turn"], pairs["receiver"], pairs["sender"]))]
    return pairs[run_starts(pairs["sender"], pairs["receiver"])]


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
        files.partitions(_CANDIDATE, parts) as by_sender,
        files.partitions(_SHINGLE_ROW, parts) as sets,
        files.sent(_VERIFIED_PAIRS, number, PAIR, sizes) as sent,
    ):
        for _, pairs in files.received(_COMPARED, number, _CANDIDATE):
            by_sender.add(pairs["sender"] % parts, pairs)
        for _, rows in files.received(_SHINGLES, number, _SHINGLE_ROW):
            sets.add(rows["record"] % parts, rows)
        for pairs, rows in zip(by_sender.take(), sets.take(), strict=True):
            counts = pairs["sender_size"] + pairs["receiver_size"]
            compare = partial(comparison, *_sets_of(rows))
            similarity = compared_in_pieces(pairs, counts, compare, usable_threads(workers))
            near = similarity >= threshold
            verified = pairs_of(
                pairs["sender"][near],
                pairs["receiver"][near],
                similarity[near].astype(np.float32),
                pairs["turn"][near],
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
    """[k] similarity of [k] _CANDIDATE, of which the shingles of the first ones are given."""
    senders, places = np.unique(pairs["sender"], return_inverse=True)
    receivers, own_places = np.unique(pairs["receiver"], return_inverse=True)
    at = np.searchsorted(records, senders)
    counts = np.diff(sets.begins)[at]
    given, _ = ranges(sets.begins[:-1][at], counts)
    one = Shingles(sets.hashes[given], bounds_of(counts))
    other = shingles_of(sidecars, receivers - begin)
    return jaccard_across(one, other, np.stack([places, own_places], axis=1))
