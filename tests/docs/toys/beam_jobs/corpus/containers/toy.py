"""Archives of members of five bytes, after a magic number of four."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.corpus.containers.base import ArchiveReport, Container, Member, make_member
from beam_jobs.corpus.record import Locator, SourceItem
from beam_jobs.corpus.streams import FileRange, RawStream


class Toy(Container):
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        for start in range(4, file.size, 5):
            yield make_member(b"%d.txt" % start, "", Locator("toybox", offset=start, size=5))

    def open(self, path: bytes, locator: Locator) -> RawStream:
        return FileRange(path, locator.offset, locator.size)
