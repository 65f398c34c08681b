"""Plain text: a file is a document, or every line, or what lies between separators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import (
    Document,
    Format,
    Found,
    Ignored,
    Part,
    RefusedDocument,
    Stretch,
    place_at,
    rest_of,
)
from beam_jobs.documents.decoding import Encoding, decode, encoding_of_lines
from beam_jobs.documents.lines import Line, aligned, cut_lines, read_lines
from beam_jobs.options import TextOptions
from beam_jobs.sources.base import MAX_RECORD_BYTES, check_size
from beam_jobs.sources.streams import Bytes

_BLOCK_BYTES = 1 << 20  # 1 MiB a read
_SMALL_BYTES = 1 << 16  # 64 KiB: most files are smaller
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}


class Plain(Format):
    """See Format."""

    def __init__(self, options: TextOptions) -> None:
        super().__init__(options)
        separator = options.separator or ""
        for written, meant in _ESCAPES.items():
            separator = separator.replace(written, meant)
        self._separator = separator

    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """See Format."""
        if self.options.per_line:
            yield from found_lines(part, self.options.encoding)
        elif self._separator:
            yield from self._separated(part)
        else:
            yield Found("", whole(part))

    def parse(self, found: Found, part: Part) -> Document:
        """See Format."""
        encoding, start = found.context or (self.options.encoding, 0)
        text, encoding = decode(found.data, encoding, start)
        if self.options.per_line:
            text = text.rstrip("\r\n")  # editors put one behind a mended line
        return Document(text, encoding=encoding, label=part.label, split=part.split)

    def stretches(self, file: Bytes, size: int) -> list[Stretch]:
        """See Format."""
        return cut_lines(size) if self.options.per_line else super().stretches(file, size)

    def _separated(self, part: Part) -> Iterator[Found | RefusedDocument]:
        with part.open() as file:
            encoding = encoding_of_lines(file, self.options.encoding)
            for one in _between(file, self._separator.encode(encoding.name), encoding):
                context = (encoding.name, one.offset)
                if one.is_too_long:
                    yield too_long(one, context)
                elif not one.is_whole and file.damage is not None:
                    yield rest_of(one.offset, file.damage, one.data or None, context)
                elif not encoding.is_blank(one.data):
                    yield Found(place_at(one.offset), one.data, context)


def whole(part: Part) -> bytes:
    """All bytes of a part.

    Raises:
        Rejection: They are too many, or there is damage; then with what could be read.
    """
    with part.open() as file:
        data = _up_to_most(file)
        check_size(len(data))
        if file.damage is not None:
            raise Rejection(file.damage.reason, file.damage.detail, data=data)
    return data


def bytes_of(part: Part) -> bytes | None:
    """What can be read of a part that is refused; None if it is too large to be kept."""
    with part.open() as file:
        data = _up_to_most(file)
    return data if len(data) <= MAX_RECORD_BYTES else None


def _up_to_most(file: Bytes) -> bytes:
    """All bytes of a file, or one more than may be held; room is made for what is asked for."""
    data = file.read(_SMALL_BYTES)
    if len(data) < _SMALL_BYTES:
        return data
    return data + file.read(MAX_RECORD_BYTES + 1 - _SMALL_BYTES)


def found_lines(part: Part, encoding: str) -> Iterator[Found | RefusedDocument]:
    """Every line of a part that is not blank; the context is (encoding, first byte).

    Args:
        part: A file or a stretch of one.
        encoding: The value of --encoding.
    """
    with part.open() as file:
        known = encoding_of_lines(file, encoding)
        behind = part.start
        for line in read_lines(file, known.newline, part.start, part.end):
            behind = line.offset + line.size
            context = (known.name, line.offset)
            if not line.is_whole:
                behind = line.offset
                break
            if line.is_too_long:
                yield too_long(line, context)
            elif not known.is_blank(line.data):
                yield Found(place_at(line.offset), known.without_end(line.data), context)
        else:
            line = Line(behind, b"", 0)
        if file.damage is not None and not 0 <= part.end <= behind:
            yield rest_of(behind, file.damage, line.data or None, (known.name, behind))


def too_long(line: Line, context: Any) -> RefusedDocument:
    """A record that no worker may hold."""
    detail = f"the record at byte {line.offset} has {line.size} bytes, more than {MAX_RECORD_BYTES}"
    return RefusedDocument(
        place_at(line.offset), Rejection("file-too-large", detail, stage="read"), context
    )


def _between(file: Bytes, separator: bytes, encoding: Encoding) -> Iterator[Line]:
    """What lies between separators, as lines; the last is whole only if the file is."""
    width = len(encoding.newline)
    block, begin, offset, dropped = b"", 0, 0, 0
    while more := file.read(_BLOCK_BYTES):
        searched = max(begin, len(block) - len(separator) + 1) - begin
        block, begin = block[begin:] + more, 0
        while (at := aligned(block, separator, searched, begin, width)) >= 0:
            size = dropped + at - begin
            yield Line(offset, block[begin:at], size)
            offset += size + len(separator)
            begin = searched = at + len(separator)
            dropped = 0
        if len(block) - begin > MAX_RECORD_BYTES:
            over = len(block) - begin - len(separator)
            over -= over % width
            begin, dropped = begin + over, dropped + over
    yield Line(offset, block[begin:], dropped + len(block) - begin, is_whole=False)
