"""Image files: each is a record, and decoding decides whether it is an image."""

from __future__ import annotations

from beam_jobs.corpus.formats.base import FilePart, Format, FoundRecord
from beam_jobs.corpus.record import RawRecord


class ImageFile(Format):
    """See Format."""

    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        """See Format."""
        payload = self.payload.from_bytes(found.data)
        return RawRecord("", found.data, payload, part.annotations)
