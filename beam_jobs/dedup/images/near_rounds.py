"""Near duplicates among images in rounds; `near_duplicates` says what is done.

A range of contents has the images whose hashes have a content number in it. In the order of
contents, images have the rows that they have where one worker finds the pairs, so all that depends
on rows, such as which entries of a crowded bucket are compared, is the same.

1. Hashes and thumbnails go to the range of their content (1.3 kB an image).
2. Images with equal hashes are paired with their leader there.
3. Views go to the ranges of their buckets (42 of 17 bytes an image), and so do the images that are
   looked up, once for each range and band with a probe of them (45 bytes each, 70 at most).
4. Ranges of buckets send candidates to the range of the part,
5. which chooses the nearest ones, and sends its thumbnail to the range of each whole (1.2 kB for a
   candidate, of which an image has 16 at most),
6. where thumbnails are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import numpy as np
import numpy.typing as npt

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, fixed_bytes
from beam_jobs.dedup.clusters import NearPairs
from beam_jobs.dedup.images.candidates import (
    CANDIDATE,
    ENTRY,
    PART,
    BandRows,
    Buckets,
    best_views,
    blocks,
    entries_of,
    parts_of,
    probes_of,
    search_band,
    stored_blocks,
    unpack,
)
from beam_jobs.dedup.images.hash_format import (
    BANDS,
    HASH_BYTES,
    HASHED,
    THUMBNAIL_BYTES,
    is_flat,
)
from beam_jobs.dedup.images.near_duplicates import (
    FetchedThumbnails,
    ThumbnailComparison,
    content_numbers,
    hashed_rows,
    lead_repeats,
)
from beam_jobs.dedup.images.pair_verifier import Thumbnails
from beam_jobs.dedup.near_rounds import (
    PAIR,
    NearResult,
    NearRound,
    NearSearch,
    NearTask,
    pairs_of,
)
from beam_jobs.staging.range_files import RangeFiles
from beam_jobs.staging.reordering import (
    Partitions,
    RowFile,
    StructuredArray,
    rows_of_partition,
)
from foundation.machine import usable_cores

# Exchanges, and files that ranges of contents keep.
_HASHES, _THUMBNAILS = "perceptual-hashes", "thumbnails"
_VIEWS, _LOOKED_UP, _CANDIDATES, _SHOWN = "views", "looked-up", "candidates", "shown"
_EQUAL_PAIRS, _VERIFIED_PAIRS = "equal-pairs", "verified-pairs"
_IMAGES = "images"  # number of images of each range, without those that have a leader

_THUMBNAIL = ("thumbnail", np.uint8, (THUMBNAIL_BYTES,))
_IMAGE = np.dtype([*HASHED.descr, _THUMBNAIL])
# An image, by the place where it waits.
_PLACED = np.dtype(
    [("content", np.uint64), ("record", np.int64), ("place", np.int64), ("flat", np.bool_)]
)
_LEADER = np.dtype([("record", np.int64), _THUMBNAIL])
_BANDED_ENTRY = np.dtype([*ENTRY.descr, ("band", np.uint8)])
_BANDED_PART = np.dtype([*PART.descr, ("band", np.uint8)])
# A candidate with the record and the thumbnail of the part.
_SHOWN_PART = np.dtype([("record", np.int64), ("whole", np.int64), ("view", np.int64), _THUMBNAIL])


def near_search(threshold: float, workers: int | None) -> NearSearch:
    """How near duplicates among images are found in rounds; see `near_duplicates`."""
    search = _ImageSearch(threshold, workers)
    rounds = [
        NearRound("SendHashes", _send_hashes),  # units
        NearRound("LeadRepeats", search.lead_repeats),  # contents
        NearRound("SendViews", _send_views),
        NearRound("FindCandidates", search.find_candidates),  # buckets
        NearRound("ChooseCandidates", _choose_candidates),  # contents
        NearRound("VerifyPairs", search.verify_pairs),
    ]
    return NearSearch(rounds, (_EQUAL_PAIRS, _VERIFIED_PAIRS))


def _send_hashes(task: NearTask) -> NearResult:
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    first = int(files.begins[number])
    sidecars = task.open_units()
    with files.sent(_HASHES, number, _IMAGE, sizes) as by_content:
        for begin, table in sidecars:
            included = np.flatnonzero(sidecars.included(begin, table))
            hashes = fixed_bytes(table["perceptual_hash"], HASH_BYTES)
            thumbnails = fixed_bytes(table["thumbnail"], THUMBNAIL_BYTES)
            for start in range(0, len(included), bounds.HASHED_THUMBNAILS):
                rows = included[start : start + bounds.HASHED_THUMBNAILS]
                hashed = hashed_rows(first + begin + rows, hashes[rows])
                # All of them have the same hash, and are compared by their thumbnails alone.
                flat = is_flat(hashed["hash"])
                hashed["content"][flat] = content_numbers(thumbnails[rows[flat]])
                images = _with(hashed, _IMAGE, thumbnail=thumbnails[rows])
                by_content.add(_place(hashed["content"], files.ranges)[0], images)
    return NearResult(sizes, {})


def _place(contents: npt.NDArray[np.uint64], ranges: int) -> tuple[IntArray, IntArray]:
    """([n] range of contents, [n] place in it, below 2**32) of content numbers."""
    scaled = (contents >> np.uint64(32)).astype(np.int64) * ranges
    return scaled >> 32, scaled & 0xFFFFFFFF


def _with(rows: StructuredArray, dtype: np.dtype[np.void], **fields: object) -> StructuredArray:
    """The rows with other fields: those of the type that are missing are given, others go."""
    made = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        made[name] = fields[name] if name in fields else rows[name]
    return made


class _Rows:
    """The own rows of a range, by the numbers that all images have."""

    def __init__(self, counts: Sequence[int], number: int) -> None:
        self.begins = bounds_of(np.array(counts, np.int64))
        self.total = int(self.begins[-1])
        self.first = int(self.begins[number])
        self.count = counts[number]

    def owner(self, rows: IntArray) -> IntArray:
        """[n] the range of contents that has each row."""
        return np.searchsorted(self.begins, rows, side="right") - 1


class _ReceivedImages:
    """The images of a range of contents, in a file.

    Args:
        file: Where they wait.

    Attributes:
        part: Rows of _PLACED, of which thumbnails can be fetched.
    """

    def __init__(self, file: RowFile) -> None:
        self.part = np.empty(0, _PLACED)
        self._file = file

    def add(self, images: StructuredArray) -> StructuredArray:
        """Adds rows of _IMAGE; their rows of _PLACED."""
        place = self._file.count + np.arange(len(images))
        self._file.append(images)
        return _with(images, _PLACED, place=place, flat=is_flat(images["hash"]))

    def fetch(self, records: IntArray) -> Thumbnails:
        """[k, THUMBNAIL_BYTES] of [k] records of the part."""
        order = np.argsort(self.part["record"])
        at = order[np.searchsorted(self.part["record"], records, sorter=order)]
        thumbnails: Thumbnails = self._file.take(self.part["place"][at])["thumbnail"]
        return thumbnails

    def take(self, rows: StructuredArray) -> Iterator[StructuredArray]:
        """The rows of _IMAGE of [k] _PLACED, some at a time."""
        for start in range(0, len(rows), bounds.HASHED_THUMBNAILS):
            yield self._file.take(rows["place"][start : start + bounds.HASHED_THUMBNAILS])


class _ImageSearch:
    """The rounds that compare.

    Args:
        threshold: See `near_duplicates`.
        workers: See `near_duplicates`.
    """

    def __init__(self, threshold: float, workers: int | None) -> None:
        self._threshold = threshold
        self._workers = workers

    def lead_repeats(self, task: NearTask) -> NearResult:
        """Pairs images with equal hashes, and writes the others in the order of contents."""
        files, number = task.files, task.number
        sizes: dict[str, bytes] = {}
        checksums: dict[str, str] = {}
        received = files.exchange(_HASHES).count(number, files.ranges, _IMAGE)
        parts = max(1, -(-received // rows_of_partition(received)))
        count = 0
        with (
            closing(files.row_file(_IMAGE)) as file,
            files.partitions(_PLACED, parts) as by_content,
            files.sent(_EQUAL_PAIRS, number, PAIR, sizes) as pairs,
            files.writing_rows(_HASHES, number, checksums) as hashes,
            files.writing_rows(_THUMBNAILS, number, checksums) as thumbnails,
        ):
            images = _ReceivedImages(file)
            comparison = FetchedThumbnails(images.fetch, self._threshold, self._workers)
            for _, rows in files.received(_HASHES, number, _IMAGE):
                place = _place(rows["content"], files.ranges)[1]
                by_content.add(place * parts >> 32, images.add(rows))
            for rows in by_content.take():
                images.part = rows = rows[np.argsort(rows["content"], kind="stable")]
                leaders, linked = lead_repeats(rows, rows["flat"], comparison)
                for some in images.take(leaders):
                    hashes.write(_with(some, HASHED).tobytes())
                    thumbnails.write(_with(some, _LEADER).tobytes())
                count += len(leaders)
                for near in linked:
                    _send_pairs(files, pairs, near)
        return NearResult(sizes, {_IMAGES: count, **checksums})

    def find_candidates(self, task: NearTask) -> NearResult:
        """Finds the candidates in a range of the buckets of every band."""
        files, number = task.files, task.number
        sizes: dict[str, bytes] = {}
        rows = _Rows(task.noted[_IMAGES], number)
        threads = self._workers or math.ceil(usable_cores())
        with (
            ExitStack() as stack,
            ThreadPoolExecutor(threads) as pool,
            files.sent(_CANDIDATES, number, CANDIDATE, sizes) as likely,
        ):
            entries = _by_band(task, _VIEWS, _BANDED_ENTRY, ENTRY, stack)
            parts = _by_band(task, _LOOKED_UP, _BANDED_PART, PART, stack)
            for band in range(BANDS):
                own = BandRows(stored_blocks(parts[band]), stored_blocks(entries[band]))
                buckets = Buckets(band, rows.total)
                some = buckets.owned(number, files.ranges)
                for near in search_band(own, buckets, some, pool):
                    likely.add(rows.owner(near["part"]), near)
        return NearResult(sizes, {})

    def verify_pairs(self, task: NearTask) -> NearResult:
        """Compares the thumbnails of a range with those of the images that may be crops of them."""
        files, number = task.files, task.number
        sizes: dict[str, bytes] = {}
        first = _Rows(task.noted[_IMAGES], number).first
        comparison = ThumbnailComparison(self._threshold, self._workers)
        sha256 = task.noted[_THUMBNAILS][number]
        with (
            ThreadPoolExecutor(comparison.threads) as pool,
            files.written_rows(_THUMBNAILS, number, _LEADER, sha256) as leaders,
            files.sent(_VERIFIED_PAIRS, number, PAIR, sizes) as pairs,
        ):
            for _, parts in files.received(_SHOWN, number, _SHOWN_PART):
                wholes = leaders.take(parts["whole"] - first)
                values = comparison.similarities(
                    pool, parts["thumbnail"], wholes["thumbnail"], parts["view"]
                )
                near = values >= self._threshold
                records = np.stack([parts["record"][near], wholes["record"][near]], axis=1)
                _send_pairs(files, pairs, NearPairs(records, values[near].astype(np.float32)))
        return NearResult(sizes, {})


def _send_pairs(files: RangeFiles, pairs: Partitions, near: NearPairs) -> None:
    rows = pairs_of(near.pairs[:, 0], near.pairs[:, 1], near.similarity)
    pairs.add(files.sources(rows["first"]), rows)


def _send_views(task: NearTask) -> NearResult:
    """Sends views, and the images to look up, to the ranges of their buckets."""
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    rows = _Rows(task.noted[_IMAGES], number)
    with (
        files.written_rows(_HASHES, number, HASHED, task.noted[_HASHES][number]) as images,
        files.sent(_VIEWS, number, _BANDED_ENTRY, sizes) as views,
        files.sent(_LOOKED_UP, number, _BANDED_PART, sizes) as looked_up,
    ):
        for block in blocks(range(images.count)):
            hashes = images.read(block.start, block.stop)["hash"]
            entries = entries_of(hashes, rows.first + block.start)
            for band in range(BANDS):
                buckets = Buckets(band, rows.total)
                owner = buckets.owner(entries["code"], files.ranges)
                views.add(owner, _with(entries, _BANDED_ENTRY, band=band))
                parts = parts_of(hashes, rows.first + block.start, band)
                probed = buckets.owner(probes_of(parts), files.ranges).reshape(-1, len(parts))
                asked = np.zeros((files.ranges, len(parts)), bool)
                asked[probed, np.arange(len(parts))] = True
                ranged, which = np.nonzero(asked)
                looked_up.add(ranged, _with(parts, _BANDED_PART, band=band)[which])
    return NearResult(sizes, {})


def _by_band(
    task: NearTask,
    exchange: str,
    banded: np.dtype[np.void],
    dtype: np.dtype[np.void],
    stack: ExitStack,
) -> list[RowFile]:
    """What a range of buckets has received, a file for every band."""
    by_band = [task.files.row_file(dtype) for _ in range(BANDS)]
    for file in by_band:
        stack.callback(file.close)
    for _, rows in task.files.received(exchange, task.number, banded):
        for band, file in enumerate(by_band):
            file.append(_with(rows[rows["band"] == band], dtype))
    return by_band


def _choose_candidates(task: NearTask) -> NearResult:
    """Sends the thumbnail of every part to the ranges of the wholes that are nearest."""
    files, number = task.files, task.number
    sizes: dict[str, bytes] = {}
    rows = _Rows(task.noted[_IMAGES], number)
    received = files.exchange(_CANDIDATES).count(number, files.ranges, CANDIDATE)
    groups = max(1, -(-received // bounds.COMPARED_ENTRIES))
    sha256 = task.noted[_THUMBNAILS][number]
    with (
        files.partitions(CANDIDATE, groups) as by_part,
        files.written_rows(_THUMBNAILS, number, _LEADER, sha256) as leaders,
        files.sent(_SHOWN, number, _SHOWN_PART, sizes) as shown,
    ):
        for _, likely in files.received(_CANDIDATES, number, CANDIDATE):
            by_part.add((likely["part"] - rows.first) * groups // rows.count, likely)
        for likely in by_part.take():
            nearest = unpack(best_views(likely))
            for start in range(0, len(nearest.parts), bounds.FETCHED_PAIRS):
                block = slice(start, start + bounds.FETCHED_PAIRS)
                parts, wholes, views = (column[block] for column in nearest)
                own = leaders.take(parts - rows.first)
                shown.add(rows.owner(wholes), _with(own, _SHOWN_PART, whole=wholes, view=views))
    return NearResult(sizes, {})
