"""Image files: each is a record, and decoding decides whether it is an image."""

from __future__ import annotations

from typing_extensions import override

from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord


class ImageFile(Format):
    """A file with one image."""

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        payload = self.extractor.from_bytes(found.data)
        return RawRecord("", found.data, payload, part.annotations)
