"""Where a compressed file can be decompressed from: its frames.

    gzip    the blocks of bgzip, which have their size in the header (SAM/BAM format, section 4.1)
    zstd    frames (RFC 8878), by their headers or by the table of the seekable format
    xz      blocks, which the index at the end lists (the .xz file format, version 1.2.1)

Other files are one frame: to read a byte of them means to decompress all before it.
"""

from __future__ import annotations

import bisect
import contextlib
import io
import itertools
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from beam_jobs.corpus.codecs import DECOMPRESSORS
from beam_jobs.corpus.formats.base import Split
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import file_of, place_of, retried
from beam_jobs.corpus.streams import (
    ByteStream,
    Decompressed,
    FileRange,
    RawStream,
    SeekableStream,
    opened,
)
from foundation import storage
from foundation.storage import RandomAccessFile

# Frames that are closer are one: there is nothing to gain from cutting between them.
_LEAST_BYTES = 1 << 18  # 256 KiB of content
_MOST_UNIT_BYTES = 4  # of a character

_BGZF = b"\x1f\x8b\x08\x04"  # gzip, deflate, with an extra field
_BGZF_BYTES = 18  # a header with the one field that bgzip writes

_ZSTD_MAGIC, _SKIPPABLE, _SEEK_MAGIC = 0xFD2FB528, 0x184D2A50, 0x8F92EAB1
_SEEK_TABLE = 0x184D2A5E
_RLE, _RESERVED = 1, 3
_READ_BYTES = 1 << 16  # 64 KiB at a time

_XZ_MAGIC, _XZ_END = b"\xfd7zXZ\0", b"YZ"
_XZ_HEADER_BYTES = 12
_MOST_INDEX_BYTES = 64 << 20  # 64 MiB, of 4 million blocks


class Frame(NamedTuple):
    """Where decompression can begin.

    Attributes:
        stored: Byte of the file.
        content: Byte of the content.
    """

    stored: int
    content: int


BEGIN = Frame(0, 0)  # of the file


class Frames(NamedTuple):
    """The frames of a file.

    Attributes:
        starts: Ascending; the first is that of the file.
        end: Where the last one ends.
        alone: Into how many splits to divide the content of a single frame.
    """

    starts: list[Frame]
    end: Frame
    alone: int = 0


class _UnknownError(Exception):
    """The file is not one whose frames can be found."""


def find_frames(path: bytes, codec: str) -> Frames | None:
    """The frames of a compressed file; None if there is one, or if they cannot be found.

    Finding the blocks of bgzip takes a read of 26 bytes for each, and zstd without a table one for
    each block of 128 KiB. Elsewhere than on a local disk these would be requests, so they are not
    made there.

    Raises:
        UnreadableError: An I/O error.
    """
    is_local = storage.local_path(place_of(path)) is not None
    finders = _FINDERS.get(codec, ())

    def found() -> Frames | None:
        with contextlib.closing(storage.open_random(file_of(path))) as file:
            for find, reads_all in finders:
                if reads_all and not is_local:
                    continue
                try:
                    return _joined(find(file))
                except (_UnknownError, struct.error, IndexError):
                    continue
        return None

    return retried(found, path) if finders else None


def one_frame(path: bytes, codec: str) -> Frames | None:
    """A file whose content is read from its beginning for each split; None if that is too slow.

    It is decompressed here, to know how large its content is, and then up to the end of each split:
    in 8 splits 4.5 times. Cleaning takes 30 times as long as decompressing gzip once.
    """
    if codec not in _ALONE or storage.local_path(place_of(path)) is None:
        return None
    content = 0
    with opened(FileRange(path), codec) as file:
        while data := file.read(_READ_BYTES):
            content += len(data)
        if file.damage is not None:
            return None
        with FileRange(path) as raw:
            stored = raw.seek(0, os.SEEK_END)
    return Frames([BEGIN], Frame(stored, content), _ALONE[codec])


def at_frames(splits: Sequence[Split], frames: Frames) -> Iterator[tuple[Split, Frame]]:
    """Splits of the content, and the frame with which reading each begins.

    Neighbours that would begin with the same frame are one split: it would be decompressed for
    each of them. Of a single frame there are a few all the same, which pays off.
    """
    contents = [frame.content for frame in frames.starts]
    alone = -(-len(splits) // frames.alone) if frames.alone else 0

    def place(number: int) -> tuple[int, int]:
        # Whether a record begins at its start is seen in the code unit before it.
        before = max(0, splits[number].start - _MOST_UNIT_BYTES)
        return bisect.bisect_right(contents, before) - 1, number // alone if alone else 0

    for (number, _), same in itertools.groupby(range(len(splits)), place):
        own = [splits[one] for one in same]
        size = sum(one.bytes for one in own)
        yield own[0]._replace(end=own[-1].end, bytes=size), frames.starts[number]


def _joined(frames: Iterator[Frame]) -> Frames | None:
    """Frames, neighbours joined; the last one is the end."""
    starts: list[Frame] = []
    end = BEGIN
    for end in frames:
        if not starts or end.content - starts[-1].content >= _LEAST_BYTES:
            starts.append(end)
    if starts and starts[-1] == end:
        starts.pop()
    return Frames(starts, end) if len(starts) > 1 else None


def _of_bgzip(file: RandomAccessFile) -> Iterator[Frame]:
    """Every block, and the end of the file."""
    position = content = 0
    header = file.read_at(0, _BGZF_BYTES)
    while True:
        size = _block_bytes(file, position, header)
        yield Frame(position, content)
        position += size
        # The size of the content is at the end of a block, right before the next one.
        tail = file.read_at(position - 4, 4 + _BGZF_BYTES)
        content += int.from_bytes(tail[:4], "little")
        header = tail[4:]
        if position >= file.size:
            break
    if position > file.size:
        raise _UnknownError
    yield Frame(position, content)


def _block_bytes(file: RandomAccessFile, position: int, header: bytes) -> int:
    """The bytes of a block of bgzip, by its header."""
    if not header.startswith(_BGZF):
        raise _UnknownError
    length = int.from_bytes(header[10:12], "little")
    extra = header[12 : 12 + length]
    if len(extra) < length:
        extra = file.read_at(position + 12, length)
    at = 0
    while at + 4 <= len(extra):
        size = int.from_bytes(extra[at + 2 : at + 4], "little")
        if extra[at : at + 2] == b"BC" and size == 2:
            return int.from_bytes(extra[at + 4 : at + 6], "little") + 1
        at += 4 + size
    raise _UnknownError


def _of_seekable_zstd(file: RandomAccessFile) -> Iterator[Frame]:
    """The frames of the table at the end, and the end of the last one."""
    count, flags, magic = struct.unpack("<IBI", file.read_at(max(0, file.size - 9), 9))
    entry = struct.Struct("<3I" if flags & 0x80 else "<2I")
    table_bytes = 8 + count * entry.size + 9
    if magic != _SEEK_MAGIC or not 8 < table_bytes <= min(file.size, _MOST_INDEX_BYTES):
        raise _UnknownError
    table = file.read_at(file.size - table_bytes, table_bytes)
    if struct.unpack_from("<2I", table) != (_SEEK_TABLE, table_bytes - 8):
        raise _UnknownError
    sizes = list(entry.iter_unpack(table[8:-9]))
    if sum(stored for stored, *_ in sizes) != file.size - table_bytes:
        raise _UnknownError
    position = content = 0
    for stored, size, *_ in sizes:
        yield Frame(position, content)
        position, content = position + stored, content + size
    yield Frame(position, content)


def _of_zstd(file: RandomAccessFile) -> Iterator[Frame]:
    """Every frame, and the end of the file."""
    spans: list[tuple[int, int, int | None]] = []  # start, end, bytes of the content
    position = 0
    while position < file.size:
        header = file.read_at(position, 18)
        magic = int.from_bytes(header[:4], "little")
        if magic & ~0xF == _SKIPPABLE:
            position += 8 + int.from_bytes(header[4:8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise _UnknownError
        size, header_bytes = _zstd_header(header)
        end = _after_blocks(file, position + header_bytes) + 4 * bool(header[4] & 4)
        spans.append((position, end, size))
        position = end
    if position != file.size or len(spans) < 2:
        raise _UnknownError
    content = 0
    for start, end, size in spans:
        yield Frame(start, content)
        content += _content_bytes(file, start, end) if size is None else size
    yield Frame(position, content)


def _content_bytes(file: RandomAccessFile, start: int, end: int) -> int:
    """The bytes of the content of a zstd frame that does not say it, as pzstd writes them.

    Decompressing takes a few percent of the time that cleaning the content takes.
    """
    content = 0
    decompressed = DECOMPRESSORS["zstd"](_FileWindow(file, start, end))
    try:
        while data := decompressed.read(_READ_BYTES):
            content += len(data)
    except Rejection:
        raise _UnknownError from None
    return content


class _FileWindow(io.RawIOBase):
    """Bytes of an open file."""

    def __init__(self, file: RandomAccessFile, start: int, end: int) -> None:
        super().__init__()
        self._file, self._position, self._end = file, start, end

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)[: self._end - self._position]
        length = self._file.read_into(self._position, view) if len(view) else 0
        self._position += length
        return length


def _zstd_header(header: bytes) -> tuple[int | None, int]:
    """(bytes of the content, if they are known, bytes of the header) of a frame."""
    descriptor = header[4]
    single = bool(descriptor & 0x20)
    size_bytes = (int(single), 2, 4, 8)[descriptor >> 6]
    at = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    if not size_bytes:
        return None, at
    field = header[at : at + size_bytes]
    return int.from_bytes(field, "little") + 256 * (size_bytes == 2), at + size_bytes


def _after_blocks(file: RandomAccessFile, position: int) -> int:
    """The end of the blocks that begin at a position."""
    while True:
        header = file.read_at(position, 3)
        if len(header) < 3:
            raise _UnknownError
        number = int.from_bytes(header, "little")
        kind = number >> 1 & 3
        if kind == _RESERVED:
            raise _UnknownError
        position += 3 + (1 if kind == _RLE else number >> 3)
        if number & 1:
            return position


def _of_xz(file: RandomAccessFile) -> Iterator[Frame]:
    """Every block of a file of one stream, and the end of the last one."""
    footer = file.read_at(max(0, file.size - 12), 12)
    index_bytes = 4 * (int.from_bytes(footer[4:8], "little") + 1)
    start = file.size - 12 - index_bytes
    if footer[10:] != _XZ_END or start < _XZ_HEADER_BYTES or index_bytes > _MOST_INDEX_BYTES:
        raise _UnknownError
    index = file.read_at(start, index_bytes)
    if index[0]:
        raise _UnknownError
    count, at = _number(index, 1)
    position, content = _XZ_HEADER_BYTES, 0
    for _ in range(count):
        stored, at = _number(index, at)
        size, at = _number(index, at)
        yield Frame(position, content)
        position, content = position + -(-stored // 4) * 4, content + size
    if position != start:
        raise _UnknownError  # it has several streams
    yield Frame(position, content)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of 7 bits, the lowest first, and where it ends."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return number, at


# By codec: the splits of a single frame. bzip2 and xz take too long.
_ALONE = {"gzip": 8, "zstd": 16}

# By codec: what finds frames, and whether it reads something of every block.
_FINDERS: dict[str, tuple[tuple[Callable[[RandomAccessFile], Iterator[Frame]], bool], ...]] = {
    "gzip": ((_of_bgzip, True),),
    "zstd": ((_of_seekable_zstd, False), (_of_zstd, True)),
    "xz": ((_of_xz, False),),
}


class FramedContent(SeekableStream):
    """The content of a compressed file, which is decompressed from its start or from a frame on.

    Args:
        path: The file.
        codec: As `codecs.codec_of` names it.
        frame: Where decompression begins for what is behind it.
        end: Where the last frame ends.
    """

    def __init__(self, path: bytes, codec: str, frame: Frame, end: Frame) -> None:
        super().__init__()
        self._path, self._codec, self._frame, self._frames_end = path, codec, frame, end
        self._content: Decompressed | None = None
        self._reached = 0  # in the content

    @override
    def more(self, size: int) -> bytes:
        if self._reached > self._position or self._reached < self._frame.content <= self._position:
            self._end()
        if self._content is None:
            self._begin()
        while self._reached < self._position and self._next_bytes(self._position - self._reached):
            pass
        data = self._next_bytes(size)
        self._position = self._reached
        return data

    @override
    def end(self) -> int:
        return self._frames_end.content

    @override
    def close(self) -> None:
        self._end()
        super().close()

    def _begin(self) -> None:
        frame = self._frame if self._position >= self._frame.content else BEGIN
        raw: RawStream = FileRange(self._path, frame.stored, self._frames_end.stored - frame.stored)
        if self._codec == "xz" and frame.stored:
            raw = _Continued(FileRange(self._path, 0, _XZ_HEADER_BYTES), raw)
        self._content, self._reached = Decompressed(ByteStream(raw), self._codec), frame.content

    def _next_bytes(self, size: int) -> bytes:
        assert self._content is not None
        if self._codec == "xz":  # its last block is not the end of a stream for the decompressor
            size = min(size, self._frames_end.content - self._reached)
        data = self._content.more(size) if size else b""
        self._reached += len(data)
        return data

    def _end(self) -> None:
        if self._content is not None:
            self._content.close()
            self._content = None


class _Continued(RawStream):
    """Two streams, one after the other."""

    def __init__(self, *parts: RawStream) -> None:
        super().__init__(*parts)
        self._parts = list(parts)

    @override
    def more(self, size: int) -> bytes:
        while self._parts:
            data = self._parts[0].more(size)
            if data:
                return data
            self._parts.pop(0)
        return b""
