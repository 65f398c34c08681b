"""Tar archives, plain or compressed, in WebDataset form or with class folders inside.

Members of a plain archive are read where they lie. A compressed one is one unit of work, since
reading a member means decompressing all before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.archives import place_of
from beam_jobs.sources.base import Item, ReadRecord
from beam_jobs.sources.compression import codec_of
from beam_jobs.sources.contents import Entry, entry
from beam_jobs.sources.forwards import open_forwards
from beam_jobs.sources.packed import Listed, PackedFiles
from beam_jobs.sources.ranges import Place, open_ranges
from beam_jobs.sources.tar_headers import (
    FOLDER,
    Gap,
    Member,
    is_header,
    read_headers,
)

_BETWEEN_GAPS = ","
_MAX_GAPS = 100  # whose bytes are kept


class Tar(PackedFiles):
    """Every file below the roots must be a tar archive; what is none is listed as refused."""

    def entries(self, archive: Listed) -> Iterator[Entry]:
        """See PackedFiles."""
        path = archive.file.path
        codec = _codec(path)
        archive.compressed = bool(codec)
        gaps: list[Gap] = []
        empty = True
        for found in _headers(path, codec):
            if isinstance(found, Gap):
                gaps.append(found)
                continue
            empty = False
            if found.kind != FOLDER:
                bytes_are_there = found.size or not found.kind
                place = str(Place(codec, found.offset, found.size)) if bytes_are_there else ""
                yield entry(found.name, place, found.size, found.kind)
        if gaps and empty:
            raise Rejection("not-a-tar", f"no member can be found: {gaps[0].why}")
        if gaps:
            archive.damage = _damage(gaps, codec)

    @contextmanager
    def open(self, items: Sequence[Item], scratch: Path) -> Iterator[ReadRecord]:
        """See Source."""
        with open_ranges(_wanted(items), scratch) as ranges:

            def fetch(path: bytes, place: str) -> bytes:
                if _BETWEEN_GAPS not in place:
                    return ranges.read(path, Place.parse(place))
                return b"".join(ranges.read(path, gap, cut=True) for gap in _gaps(place))

            yield self.read_with(fetch)


def _headers(path: bytes, codec: str) -> Iterator[Member | Gap]:
    with open_forwards(path, codec) as file:
        yield from read_headers(file)


def _codec(path: bytes) -> str:
    """How an archive is compressed; a member may have a name that looks like it."""
    with open(path, "rb") as file:
        return "" if is_header(file.read(512)) else codec_of(path)


def _damage(gaps: list[Gap], codec: str) -> tuple[str, str]:
    """(why, where) of an archive with stretches that belong to no member."""
    first, more = gaps[0], len(gaps) - 1
    why = f"from byte {first.offset} on {first.size} bytes belong to no member, for {first.why}"
    why += f"; and {more} more such stretches" if more else ""
    places = [Place(codec, gap.offset, gap.size) for gap in gaps[:_MAX_GAPS]]
    return why, "".join(f"{place}{_BETWEEN_GAPS}" for place in places)


def _gaps(place: str) -> list[Place]:
    return [Place.parse(part) for part in place.split(_BETWEEN_GAPS) if part]


def _wanted(items: Sequence[Item]) -> Iterator[tuple[bytes, Place]]:
    """The ranges of compressed archives that the records of a unit need."""
    for item in items:
        if ":" not in item.locator:
            continue
        place, companions = place_of(item)
        for text in (place, *companions.values()):
            yield from ((item.path, gap) for gap in _gaps(text))
