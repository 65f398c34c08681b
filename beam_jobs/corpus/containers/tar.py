"""Tar archives, plain or compressed.

Members of a plain archive are read in place. A compressed one is read forwards, once.
"""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.containers.base import NO_BYTES, ArchiveReport, Container, Member, make_member
from beam_jobs.corpus.containers.tar_headers import FOLDER, Gap, is_header, read_headers
from beam_jobs.corpus.record import ByteRange, Locator, Rejection, SourceItem
from beam_jobs.corpus.streams import (
    HEADER_BUFFER_BYTES,
    FileRange,
    RawStream,
    SequentialReader,
    opened,
)

_MAX_GAPS = 100  # whose bytes are kept
_HEADER_BYTES = 512


class Tar(Container):
    """See Container."""

    @override
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        with opened(FileRange(file.path)) as plain:
            head = plain.head(_HEADER_BYTES)
        # A member may have a name that looks like a codec's magic, so the header comes first.
        report.codec = "" if is_header(head) else codec_of(head)
        gaps: list[Gap] = []
        empty = True
        with opened(FileRange(file.path), report.codec, HEADER_BUFFER_BYTES) as stream:
            for found in read_headers(SequentialReader(stream)):
                if isinstance(found, Gap):
                    gaps.append(found)
                    continue
                empty = False
                if found.kind != FOLDER:
                    size = found.size if found.size or not found.kind else NO_BYTES
                    locator = Locator("tar", report.codec, found.offset, size)
                    yield make_member(found.name, found.kind, locator)
        if gaps and empty:
            raise Rejection("not-a-tar", f"no member can be found: {gaps[0].why}")
        if gaps:
            report.damage = Rejection("damaged-archive", _described(gaps))
            report.gaps = tuple(ByteRange(gap.offset, gap.size) for gap in gaps[:_MAX_GAPS])

    @override
    def open(self, path: bytes, locator: Locator) -> RawStream:
        return FileRange(path, locator.offset, locator.size)


def _described(gaps: list[Gap]) -> str:
    first, more = gaps[0], len(gaps) - 1
    text = f"{first.size} bytes from byte {first.offset} on belong to no member: {first.why}"
    return f"{text}; and {more} more such ranges" if more else text
