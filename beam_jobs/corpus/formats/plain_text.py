"""Plain text: a file is a document, or every line, or the text between separators."""

from __future__ import annotations

from collections.abc import Iterator

from beam_jobs.corpus.encodings import Encoding, decode, encoding_of_lines
from beam_jobs.corpus.formats.base import (
    FilePart,
    Found,
    FoundRecord,
    FoundRejection,
    Split,
)
from beam_jobs.corpus.formats.lines import Line, LineFormat, find_aligned, split_lines
from beam_jobs.corpus.payload import Payload
from beam_jobs.corpus.record import RawRecord
from beam_jobs.corpus.streams import ByteStream
from beam_jobs.options import TextOptions

_BLOCK_BYTES = 1 << 20  # 1 MiB a read
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}


class PlainText(LineFormat):
    """See Format."""

    options: TextOptions

    def __init__(self, options: TextOptions, payload: Payload) -> None:
        super().__init__(options, payload)
        separator = options.separator or ""
        for written, meant in _ESCAPES.items():
            separator = separator.replace(written, meant)
        self._separator = separator

    def find(self, part: FilePart) -> Iterator[Found]:
        """See Format."""
        if self.options.per_line:
            yield from self.find_lines(part, self.options.encoding)
        elif self._separator:
            yield from self._separated(part)
        else:
            yield FoundRecord("", self.whole(part))

    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        """See Format."""
        encoding, start = found.context or (self.options.encoding, 0)
        text, encoding = decode(found.data, encoding, start)
        if self.options.per_line:
            text = text.rstrip("\r\n")  # editors put one after a replaced line
        return RawRecord("", found.data, text, part.annotations, encoding)

    def splits(self, file: ByteStream, size: int) -> list[Split]:
        """See Format."""
        return split_lines(size) if self.options.per_line else super().splits(file, size)

    def _separated(self, part: FilePart) -> Iterator[FoundRecord | FoundRejection]:
        with part.open() as file:
            encoding = encoding_of_lines(file, self.options.encoding)
            separator = self._separator.encode(encoding.name)
            for one in _between(file, separator, encoding, self.limit):
                context = (encoding.name, one.offset)
                if one.size > self.limit:
                    yield self.too_large(one.offset, one.size, context)
                elif not one.is_whole and file.damage is not None:
                    yield self.after_damage(one.offset, file.damage, one.data or None, context)
                elif not encoding.is_blank(one.data):
                    yield FoundRecord(self.place(one.offset), one.data, context)


def _between(file: ByteStream, separator: bytes, encoding: Encoding, limit: int) -> Iterator[Line]:
    """The text between separators, as lines; the last is whole only if the file is."""
    width = len(encoding.newline)
    block, begin, offset, dropped = b"", 0, 0, 0
    while more := file.read(_BLOCK_BYTES):
        searched = max(begin, len(block) - len(separator) + 1) - begin
        block, begin = block[begin:] + more, 0
        while (at := find_aligned(block, separator, searched, begin, width)) >= 0:
            size = dropped + at - begin
            yield Line(offset, block[begin:at], size)
            offset += size + len(separator)
            begin = searched = at + len(separator)
            dropped = 0
        if len(block) - begin > limit:
            over = len(block) - begin - len(separator)
            over -= over % width
            begin, dropped = begin + over, dropped + over
    yield Line(offset, block[begin:], dropped + len(block) - begin, is_whole=False)
