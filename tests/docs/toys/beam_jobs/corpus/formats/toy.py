"""Files that begin with TOY; the rest is one document."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord


class Toy(Format):
    def find(self, part: FilePart) -> Iterator[FoundRecord]:
        yield FoundRecord("", self.whole(part))

    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        return RawRecord("", found.data, found.data[3:].decode(), part.annotations, "utf-8")
