"""Lines of a stream, or of a stretch of one, with their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from beam_jobs.documents.base import Stretch
from beam_jobs.sources.base import MAX_RECORD_BYTES
from beam_jobs.sources.streams import Bytes

_STRETCHES_PER_FILE = 64  # aimed at
_MIN_STRETCH_BYTES = 1 << 20  # 1 MiB
_MAX_STRETCH_BYTES = 32 << 20  # 32 MiB, about a unit
_BLOCK_BYTES = 1 << 20  # 1 MiB of a line that is too long at a time


def cut_lines(size: int) -> list[Stretch]:
    """The stretches of a file of lines, which may be cut anywhere.

    Their length is a power of two, so it rarely changes while a file grows.

    Args:
        size: Bytes of the file.
    """
    aimed = size // _STRETCHES_PER_FILE
    step = 1 << max(0, aimed - 1).bit_length()
    step = min(_MAX_STRETCH_BYTES, max(_MIN_STRETCH_BYTES, step))
    return [
        Stretch(start, start + step if start + step < size else -1, min(step, size - start))
        for start in range(0, max(1, size), step)
    ]


class Line(NamedTuple):
    """One line.

    Attributes:
        offset: Of its first byte in the stream.
        data: Its bytes with what ends it; the first MAX_RECORD_BYTES of a longer one.
        size: Its bytes.
        is_whole: Whether something ends it, the end of the file included unless it is damage.
    """

    offset: int
    data: bytes
    size: int
    is_whole: bool = True

    @property
    def is_too_long(self) -> bool:
        """Whether it is more than a worker may hold."""
        return self.size > MAX_RECORD_BYTES


def read_lines(file: Bytes, newline: bytes, start: int = 0, end: int = -1) -> Iterator[Line]:
    """The lines that begin in [start, end) of a file, the last to its last byte.

    Args:
        file: At its beginning.
        newline: What ends a line, in the file's encoding: as wide as a code unit.
        start: A multiple of the newline's width, as `end` is.
        end: -1 is the end of the file.
    """
    offset = max(0, start - len(newline))
    if offset:
        file.seek(offset)
    lines = _byte_lines(file, offset) if newline == b"\n" else _other_lines(file, offset, newline)
    for line in lines:
        if line.offset < start:
            continue  # it belongs to the stretch before
        if 0 <= end <= line.offset:
            return
        if file.damage is not None and not line.data.endswith(newline):
            line = line._replace(is_whole=False)
        yield line


def _byte_lines(file: Bytes, offset: int) -> Iterator[Line]:
    while data := file.readline(MAX_RECORD_BYTES + 1):
        size = len(data)
        if size > MAX_RECORD_BYTES:
            tail = data[-1:]
            while tail != b"\n" and (more := file.readline(_BLOCK_BYTES)):
                size += len(more)
                tail = more[-1:]
        yield Line(offset, data, size)
        offset += size


def _other_lines(file: Bytes, offset: int, newline: bytes) -> Iterator[Line]:
    """As `_byte_lines`, of code units that are wider than a byte or whose newline is not 0x0a."""
    width = len(newline)
    block, begin, dropped = b"", 0, 0  # the line begins there, behind what was not kept of it
    while more := file.read(_BLOCK_BYTES):
        searched = max(begin, len(block) - width + 1)
        block = block[begin:] + more
        searched, begin = searched - begin, 0
        while (at := aligned(block, newline, searched, begin, width)) >= 0:
            size = dropped + at + width - begin
            yield Line(offset, block[begin : at + width], size)
            offset += size
            begin = searched = at + width
            dropped = 0
        if len(block) - begin > MAX_RECORD_BYTES:
            over = len(block) - begin - width
            over -= over % width
            begin, dropped = begin + over, dropped + over
    if begin < len(block):
        yield Line(offset, block[begin:], dropped + len(block) - begin)


def aligned(block: bytes, wanted: bytes, start: int, begin: int, width: int) -> int:
    """Where some bytes lie next that begin at a code unit counted from `begin`; -1 if nowhere."""
    at = block.find(wanted, start)
    while at >= 0 and (at - begin) % width:
        at = block.find(wanted, at + 1)
    return at
