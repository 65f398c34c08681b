"""Lines of a file, or of a split of one, with their positions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from typing_extensions import override

from beam_jobs.corpus.encodings import STATEFUL, UTF8, Encoding, encoding_of_lines
from beam_jobs.corpus.formats.base import FilePart, Format, Found, FoundRecord, Split
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.streams import ByteStream

_SPLITS_PER_FILE = 64  # aimed at
_MIN_SPLIT_BYTES = 1 << 20  # 1 MiB
_MAX_SPLIT_BYTES = 32 << 20  # 32 MiB, about a unit
_READ_BYTES = 1 << 18  # 256 KiB of lines at a time
_BLOCK_BYTES = 1 << 20  # 1 MiB of a line that is too long at a time


class Line(NamedTuple):
    """One line.

    Attributes:
        offset: Its first byte in the stream.
        data: Its bytes with its line break; of a line that exceeds the limit only the last ones.
        size: Its bytes.
        is_whole: Whether it has an end; the end of the file counts, unless that is damage.
    """

    offset: int
    data: bytes
    size: int
    is_whole: bool = True


class LineBlock(NamedTuple):
    """Neighbouring lines with nothing unusual about them: whole, and within the limit.

    Attributes:
        offset: The first byte in the stream.
        lines: Their bytes without the line feed that ends each.
    """

    offset: int
    lines: list[bytes]


# From the first byte and the bytes of a line to its record, or to what the others parse.
ParseLine = Callable[[int, bytes], FoundRecord | RawRecord]


class LineFormat(Format):
    """A format in which every line that is not blank is a record."""

    splits_bytes = True

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        return self.find_lines(part)

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        # Lines may be split anywhere, unless a line depends on those before it.
        try:
            whole = encoding_of_lines(file, self.text_form.encoding).name in STATEFUL
        except Rejection:
            whole = True
        if whole:
            return super().splits(file, size)
        return splits_at(split_starts(size, self.extractor.weight), size)

    def find_lines(
        self, part: FilePart, separator: str = "", parse: ParseLine | None = None
    ) -> Iterator[Any]:
        """Every line of a part that is not blank; the context is (encoding, first byte).

        `parsed` is the encoding of the file, where that is another one than that of the lines.

        Args:
            part: A file or a split of one.
            separator: Ends a line in place of a line break, and does not count as a part of it;
                only of a file that is not split.
            parse: Makes what is given of most lines, if they are UTF-8, in place of a FoundRecord.
        """
        file, known = self.open_lines(part, self.text_form.encoding)
        mark = separator.encode(known.name)

        def found(offset: int, data: bytes) -> FoundRecord:
            return FoundRecord(self.place(offset), data, (known.name, offset), known.source or None)

        if parse is None or known != UTF8:
            parse = found
        with file:
            end, stop = part.locator.start, part.locator.end
            for line in read_blocks(file, known, self.limit, end, stop, mark):
                if isinstance(line, LineBlock):
                    end = line.offset
                    for data in line.lines:
                        if 0 <= stop <= end:
                            return
                        size = len(data) + 1
                        if not mark and data.endswith(b"\r"):
                            data = data.rstrip(b"\r")
                        if data and not data.isspace():
                            yield parse(end, data)
                        end += size
                    continue
                if 0 <= stop <= line.offset:
                    return
                end = line.offset + line.size
                context = (known.name, line.offset)
                if not line.is_whole:
                    end = line.offset
                    break
                data, size = line.data, line.size
                if not mark:
                    data = known.without_end(data)
                elif data.endswith(mark):
                    data, size = data[: -len(mark)], size - len(mark)
                if size > self.limit:
                    yield self.too_large(line.offset, size, context)
                elif not known.is_blank(data):
                    yield found(line.offset, data)
            else:
                line = Line(end, b"", 0)
            if file.damage is not None and not 0 <= stop <= end:
                data = line.data if line.size <= self.limit else b""
                yield self.after_damage(end, file.damage, data or None, (known.name, end))


def split_starts(size: int, weight: int = 1) -> list[int]:
    """Where the splits of a file of so many bytes begin, if it can be split anywhere.

    The length of a split is a power of two, so it rarely changes while a file grows.

    Args:
        size: Bytes of the file.
        weight: See `RecordExtractor`.
    """
    aimed = size // _SPLITS_PER_FILE
    step = 1 << max(0, aimed - 1).bit_length()
    step = min(_MAX_SPLIT_BYTES // weight, max(_MIN_SPLIT_BYTES // weight, step))
    return list(range(0, max(1, size), step))


def splits_at(starts: list[int], size: int) -> list[Split]:
    """Splits of a file of so many bytes that begin there."""
    return [
        Split(start, end if end < size else -1, start, end - start)
        for start, end in itertools.pairwise([*starts, size])
    ]


def read_lines(
    file: ByteStream, encoding: Encoding, limit: int, start: int = 0, end: int = -1
) -> Iterator[Line]:
    """The lines that begin in [start, end) of a file, the last to its last byte.

    Args:
        file: At its beginning.
        encoding: Encoding of the file.
        limit: Most bytes of a line to keep.
        start: A multiple of the width of a code unit, as `end` is.
        end: -1 is the end of the file.
    """
    for one in read_blocks(file, encoding, limit, start, end):
        for line in [one] if isinstance(one, Line) else _one_by_one(one):
            if 0 <= end <= line.offset:
                return
            yield line


def read_blocks(
    file: ByteStream,
    encoding: Encoding,
    limit: int,
    start: int,
    end: int,
    separator: bytes = b"",
) -> Iterator[Line | LineBlock]:
    """As `read_lines`, many lines at a time where they end in 0x0a, and not only up to `end`.

    The first line from there on shows that any damage is behind the split.

    Args:
        file: At its beginning.
        encoding: Encoding of the file.
        limit: As for `read_lines`.
        start: As for `read_lines`.
        end: As for `read_lines`; the first line is not read to its end if it passes it.
        separator: What ends a line; a line break if it is empty.
    """
    newline, width = separator or encoding.newline, len(encoding.newline)
    offset = max(0, start - width)
    if offset:
        file.seek(offset)
    # A line that began before and ends after this split is not read to its end: 64 splits of a file
    # of one line would read the whole file each.
    last = end if offset else -1
    lines = (
        _byte_lines(file, offset, limit, last, skipped=start > offset)
        if newline == b"\n"
        else _separated(file, offset, newline, width, limit, last)
    )
    for line in lines:
        if line.offset < start:
            continue  # it belongs to the split before
        if isinstance(line, Line) and file.damage is not None and not line.data.endswith(newline):
            line = line._replace(is_whole=False)
        yield line


def _byte_lines(
    file: ByteStream, offset: int, limit: int, last: int, *, skipped: bool
) -> Iterator[Line | LineBlock]:
    """Lines that end in 0x0a; none if the first one ends after the byte `last`.

    A line that is long or has no end is not in a block, nor is the first one if it is `skipped`.
    """
    rest = b""  # the beginning of a line
    if skipped:
        line = _long_line(file, offset, rest, limit, last)
        if line is None:
            return
        yield line
        offset += line.size
    while data := file.read(_READ_BYTES):
        lines = data.split(b"\n")
        lines[0] = rest + lines[0]
        rest = lines.pop()
        if lines:
            block = LineBlock(offset, lines)
            if max(map(len, lines)) < limit:
                yield block
            else:
                yield from _one_by_one(block)
            offset += sum(map(len, lines)) + len(lines)
        elif len(rest) >= min(limit, _BLOCK_BYTES):
            line = _long_line(file, offset, rest, limit)
            if line is not None:
                yield line
                offset += line.size
            rest = b""
    if rest:
        yield Line(offset, rest, len(rest))


def _one_by_one(block: LineBlock) -> Iterator[Line]:
    offset = block.offset
    for data in block.lines:
        yield Line(offset, data + b"\n", len(data) + 1)
        offset += len(data) + 1


def _long_line(
    file: ByteStream, offset: int, begin: bytes, limit: int, last: int = -1
) -> Line | None:
    """The next line, a part at a time; None at the end, or if it ends after the byte `last`.

    Args:
        file: Behind `begin`.
        offset: Where the line begins.
        begin: What was read of it; no line break.
        limit: Most bytes to keep of it.
        last: -1 to read it to its end.
    """
    most = min(limit + 1, _BLOCK_BYTES)
    parts, size = [begin], len(begin)
    while data := file.readline(most):
        size += len(data)
        if size > limit:
            parts.clear()
        parts.append(data)
        if len(data) < most or data.endswith(b"\n"):
            break
        if 0 <= last <= offset + size:
            return None
    return Line(offset, b"".join(parts), size) if size else None


def _separated(
    file: ByteStream, offset: int, newline: bytes, width: int, limit: int, last: int
) -> Iterator[Line]:
    """As `_byte_lines`, with another end of lines than 0x0a, in code units of `width` bytes."""
    block, begin, dropped = bytearray(), 0, 0  # the line begins there, after bytes not kept of it
    while more := file.read(_BLOCK_BYTES):
        searched = max(begin, len(block) - len(newline) + 1) - begin
        del block[:begin]
        block += more
        begin = 0
        while (at := _find_aligned(block, newline, searched, begin, width)) >= 0:
            end = at + len(newline)
            size = dropped + end - begin
            yield Line(offset, bytes(block[begin:end]), size)
            offset += size
            begin = searched = end
            dropped, last = 0, -1
        if 0 <= last <= offset + dropped + len(block) - begin:
            return
        if dropped + len(block) - begin > limit:
            over = len(block) - begin - len(newline)
            over -= over % width
            begin, dropped = begin + over, dropped + over
    if begin < len(block):
        yield Line(offset, bytes(block[begin:]), dropped + len(block) - begin)


def _find_aligned(block: bytearray, wanted: bytes, start: int, begin: int, width: int) -> int:
    """Where bytes are next that begin at a code unit counted from `begin`; -1 if nowhere."""
    at = block.find(wanted, start)
    while at >= 0 and (at - begin) % width:
        at = block.find(wanted, at + 1)
    return at
