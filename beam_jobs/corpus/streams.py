"""Files, members of archives and compressed content as streams of bytes that end at damage.

Bytes before the damage are given; `ByteStream.damage` says what is wrong once the end is reached.
So a reader of records keeps the whole ones, and knows that the last may be cut. An I/O error is no
damage: it raises UnreadableError.
"""

from __future__ import annotations

import abc
import io
import os
from collections.abc import Callable
from typing import Any, TypeVar

from typing_extensions import override

from beam_jobs.corpus.codecs import DECOMPRESSORS
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import file_of, retried
from foundation import storage

Result = TypeVar("Result")

_BUFFER_BYTES = 1 << 18  # 256 KiB a system call
HEADER_BUFFER_BYTES = 1 << 12  # 4 KiB: for readers that go from header to header
_SMALL_BYTES = 1 << 16  # 64 KiB: most files are smaller
_SKIP_BYTES = 1 << 16  # 64 KiB of a stream that cannot seek


class RawStream(io.RawIOBase):
    """Bytes from somewhere, before buffering.

    Args:
        sources: The streams that it reads, which are closed with it.

    Attributes:
        damage: Why the stream ends before its end; None if it does not, as far as it was read.
        buffer_bytes: Bytes to read at a time.
    """

    damage: Rejection | None = None
    buffer_bytes = _BUFFER_BYTES
    _pushed = b""

    def __init__(self, *sources: io.IOBase) -> None:
        super().__init__()
        self._sources = sources

    @override
    def close(self) -> None:
        for source in self._sources:
            source.close()
        super().close()

    @abc.abstractmethod
    def more(self, size: int) -> bytes:
        """At least one and at most so many bytes; none at the end.

        Raises:
            Rejection: The data are damaged from here on.
            UnreadableError: They cannot be read.
        """

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def look(self, size: int) -> bytes:
        """The next bytes, which are read again; fewer at the end."""
        parts, length = [self._pushed], len(self._pushed)
        self._pushed = b""
        while length < size and (data := self._next(size - length)):
            parts.append(data)
            length += len(data)
        self._pushed = b"".join(parts)
        return self._pushed[:size]

    def _next(self, size: int) -> bytes:
        if self._pushed:
            data, self._pushed = self._pushed[:size], self._pushed[size:]
            return data
        if self.damage is not None:
            return b""
        try:
            return self.more(size)
        except Rejection as damage:
            self.damage = damage
        return b""


class SeekableStream(RawStream):
    """Bytes that can be read from anywhere."""

    _position = 0  # of the byte that `more` gives next

    @abc.abstractmethod
    def end(self) -> int:
        """Number of bytes."""

    @override
    def seekable(self) -> bool:
        return True

    @override
    def tell(self) -> int:
        return self._position - len(self._pushed)

    @override
    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_CUR:
            offset += self.tell()
        elif whence == os.SEEK_END:
            offset += self.end()
        self._pushed, self._position = b"", offset
        return offset


class ByteStream(io.BufferedReader):
    """A stream that is read forwards, or anywhere if it is `seekable`."""

    raw: RawStream

    def __init__(self, raw: RawStream, buffer_bytes: int = 0) -> None:
        super().__init__(raw, buffer_bytes or raw.buffer_bytes)

    @property
    def damage(self) -> Rejection | None:
        """Why it ended where it did; None if that was its end."""
        return self.raw.damage

    def check_whole(self) -> None:
        """Checks that the stream ended at its end, after all of it was read.

        Raises:
            Rejection: The damage that ended it.
        """
        if self.damage is not None:
            raise self.damage

    def head(self, size: int) -> bytes:
        """The first bytes; only before anything was read."""
        return self.raw.look(size)

    def up_to(self, limit: int) -> bytes:
        """All bytes, or one more than the limit; memory is taken as bytes arrive."""
        data = self.read(_SMALL_BYTES)
        if len(data) < _SMALL_BYTES:
            return data
        return data + self.read(limit + 1 - _SMALL_BYTES)


class FileRange(SeekableStream):
    """A byte range of a file.

    Args:
        path: The file.
        offset: First byte.
        size: How many; -1 is all to the end.
        damage: Reported at the end of the range.
    """

    def __init__(
        self, path: bytes, offset: int = 0, size: int = -1, damage: Rejection | None = None
    ) -> None:
        super().__init__()
        self._path = path
        self._offset, self._size = offset, size
        self._damage_at_end = damage
        self._file: storage.RandomAccessFile | None = None
        retried(self._open, path)

    @override
    def readinto(self, buffer: Any, /) -> int:
        # The usual case, without a copy.
        view = memoryview(buffer)
        if self._size < 0 and not self._pushed and self.damage is None:
            length = self._retried(lambda file, at: file.read_into(at, view))
            self._position += length
            if length:
                return length
        return super().readinto(view)

    @override
    def more(self, size: int) -> bytes:
        left = size if self._size < 0 else min(size, self._size - self._position)
        data: bytes = b""
        if left > 0:
            data = self._retried(lambda file, at: file.read_at(at, left))
        self._position += len(data)
        if not data and size:
            if self._damage_at_end is not None:
                raise self._damage_at_end
            if 0 <= self._position < self._size:
                expected = f"{self._size} bytes are expected at {self._offset}"
                raise Rejection("truncated-file", f"{expected}, got {self._position}")
        return data

    @override
    def end(self) -> int:
        return self._open().size - self._offset if self._size < 0 else self._size

    @override
    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        super().close()

    def _open(self) -> storage.RandomAccessFile:
        if self._file is None:
            self._file = storage.open_random(file_of(self._path))
        return self._file

    def _retried(self, read: Callable[[storage.RandomAccessFile, int], Result]) -> Result:
        """The result of a read at the position; a retry opens the file anew (a stale handle)."""

        def attempt() -> Result:
            file = self._open()
            try:
                return read(file, self._offset + self._position)
            except OSError:
                file.close()
                self._file = None
                raise

        return retried(attempt, self._path)


class InMemory(SeekableStream):
    """Bytes in memory: a small file, which costs more to open again than to keep."""

    buffer_bytes = 1 << 12  # 4 KiB

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    @override
    def more(self, size: int) -> bytes:
        data = self._data[self._position : self._position + size]
        self._position += len(data)
        return data

    @override
    def end(self) -> int:
        return len(self._data)


class Decompressed(RawStream):
    """The content of a compressed stream.

    Args:
        compressed: The stream; it is closed with this one.
        codec: As `codecs.codec_of` names it.
    """

    def __init__(self, compressed: ByteStream, codec: str) -> None:
        super().__init__(compressed)
        self._compressed = compressed
        self._content = DECOMPRESSORS[codec](compressed)

    @override
    def more(self, size: int) -> bytes:
        try:
            data = self._content.read(size)
        except Rejection:
            # A stream that was cut looks damaged; the reason is what cut it.
            if self._compressed.damage is not None:
                raise self._compressed.damage from None
            raise
        if not data:
            self._compressed.check_whole()
        return data


class Beginning(RawStream):
    """The first bytes of a stream, which ends there as if it were damaged.

    Args:
        file: The stream; it is closed with this one.
        size: How many bytes.
    """

    def __init__(self, file: ByteStream, size: int) -> None:
        super().__init__(file)
        self._file = file
        self._left = size

    @override
    def more(self, size: int) -> bytes:
        if not self._left:
            raise Rejection("truncated-file", "only its beginning is inspected")
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        if not data and size:
            self._file.check_whole()
        return data


def opened(raw: RawStream, codec: str = "", buffer_bytes: int = 0) -> ByteStream:
    """A stream, decompressed if it has a codec."""
    stream = Decompressed(ByteStream(raw), codec) if codec else raw
    return ByteStream(stream, buffer_bytes)


def bytes_within(file: ByteStream, limit: int) -> bytes | None:
    """All bytes of a stream, which is closed then; None if they are more than the limit."""
    with file:
        data = file.up_to(limit)
    return data if len(data) <= limit else None


class SequentialReader:
    """A stream that is read once, from one header to the next; `position` is how far.

    A read raises the stream's damage where it cannot give what was asked for.
    """

    def __init__(self, file: ByteStream, position: int = 0) -> None:
        self._file = file
        self.position = position
        if position:
            file.seek(position)

    def take(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        data = self._file.read(size)
        self.position += len(data)
        if len(data) < size:
            self._file.check_whole()
        return data

    def skip(self, size: int) -> int:
        """Moves over the next bytes; how many there were."""
        if self._file.seekable():
            return self._seek(size)
        left = size
        while left and (data := self._file.read(min(left, _SKIP_BYTES))):
            left -= len(data)
            self.position += len(data)
        if left:
            self._file.check_whole()
        return size - left

    def _seek(self, size: int) -> int:
        end = self.position + size
        self._file.seek(end)
        if size and not self._file.peek(1):  # it may be past the end, which only a seek can say
            end = min(end, self._file.seek(0, os.SEEK_END))
            self._file.seek(end)
        skipped = max(0, end - self.position)
        self.position = max(self.position, end)
        return skipped
