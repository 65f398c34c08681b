"""Files, members of archives and compressed content as streams of bytes that end at damage.

What could be read before the damage is given; what is wrong is said by `Bytes.damage` once the end
is reached. So a reader of records keeps the whole ones, and knows that the last may be a part.
"""

from __future__ import annotations

import abc
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.compression import checked_stream
from beam_jobs.sources.inflating import Gzip

_BLOCK_BYTES = 1 << 18  # 256 KiB a system call


class Raw(io.RawIOBase):
    """Bytes from somewhere, before buffering.

    Attributes:
        damage: Why the stream ends before its end; None if it does not, as far as it was read.
        buffer_bytes: To read at a time.
    """

    damage: Rejection | None = None
    buffer_bytes = _BLOCK_BYTES
    _pushed = b""

    @abc.abstractmethod
    def more(self, size: int) -> bytes:
        """At least one and at most so many bytes; none at the end.

        Raises:
            Rejection: The data is damaged from here on.
            OSError: It cannot be read.
        """

    def readable(self) -> bool:
        """See RawIOBase."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """See RawIOBase."""
        view = memoryview(buffer)
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def look(self, size: int) -> bytes:
        """The next bytes, which are read again; fewer at the end."""
        parts, found = [self._pushed], len(self._pushed)
        self._pushed = b""
        while found < size and (data := self._next(size - found)):
            parts.append(data)
            found += len(data)
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
        except Rejection as refusal:
            self.damage = refusal
        except OSError as error:
            detail = f"reading it failed: {error.strerror or type(error).__name__}"
            self.damage = Rejection("unreadable", detail)
        return b""


class Bytes(io.BufferedReader):
    """A stream that is read forwards, or anywhere if it is `seekable`."""

    raw: Raw

    def __init__(self, raw: Raw) -> None:
        super().__init__(raw, raw.buffer_bytes)

    @property
    def damage(self) -> Rejection | None:
        """Why it ended where it did; None if that was its end."""
        return self.raw.damage

    def head(self, size: int) -> bytes:
        """The first bytes; only before anything was read."""
        return self.raw.look(size)


class Range(Raw):
    """A stretch of a file, read where it lies.

    Args:
        path: The file.
        offset: First byte.
        size: How many; -1 is all to the end.
        damage: Of the stretch, told at its end.
    """

    def __init__(
        self, path: bytes, offset: int = 0, size: int = -1, damage: Rejection | None = None
    ) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._offset, self._size, self._position = offset, size, 0
        self._at_end = damage

    def readinto(self, buffer: Any, /) -> int:
        """See RawIOBase; the usual case without a copy."""
        view = memoryview(buffer)
        if self._size < 0 and not self._pushed and self.damage is None:
            try:
                found = os.preadv(self._descriptor, [view], self._offset + self._position)
            except OSError:
                found = 0  # said below
            self._position += found
            if found:
                return found
        return super().readinto(view)

    def more(self, size: int) -> bytes:
        """See Raw."""
        left = size if self._size < 0 else min(size, self._size - self._position)
        data = os.pread(self._descriptor, left, self._offset + self._position) if left > 0 else b""
        self._position += len(data)
        if not data and size:
            if self._at_end is not None:
                raise self._at_end
            if 0 <= self._position < self._size:
                wanted = f"{self._size} bytes are wanted at {self._offset}"
                raise Rejection("truncated-file", f"{wanted}, got {self._position}")
        return data

    def seekable(self) -> bool:
        """See RawIOBase."""
        return True

    def tell(self) -> int:
        """See RawIOBase."""
        return self._position - len(self._pushed)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """See RawIOBase."""
        if whence == os.SEEK_CUR:
            offset += self.tell()
        elif whence == os.SEEK_END:
            end = os.fstat(self._descriptor).st_size - self._offset
            offset += end if self._size < 0 else self._size
        self._pushed, self._position = b"", offset
        return offset

    def close(self) -> None:
        """See RawIOBase."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


class Held(Raw):
    """Bytes that are in memory: a small file, whose opening costs more than its reading."""

    buffer_bytes = 1 << 12  # 4 KiB

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._file = io.BytesIO(data)

    def more(self, size: int) -> bytes:
        """See Raw."""
        return self._file.read(size)

    def seekable(self) -> bool:
        """See RawIOBase."""
        return True

    def tell(self) -> int:
        """See RawIOBase."""
        return self._file.tell() - len(self._pushed)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """See RawIOBase."""
        if whence == os.SEEK_CUR:
            offset, whence = offset + self.tell(), os.SEEK_SET
        self._pushed = b""
        return self._file.seek(offset, whence)


class Unpacked(Raw):
    """What is compressed in a stream by some codec.

    Args:
        packed: The stream; it is closed with this one.
        codec: As `compression.codec_of_head` gives it.
    """

    def __init__(self, packed: Bytes, codec: str) -> None:
        super().__init__()
        self._packed = packed
        self._stream = Gzip(packed) if codec == "gzip" else checked_stream(packed, codec)

    def more(self, size: int) -> bytes:
        """See Raw."""
        try:
            data = self._stream.read(size)
        except Rejection:
            # A stream that was cut short looks damaged; what cut it is the reason.
            if self._packed.damage is not None:
                raise self._packed.damage from None
            raise
        if not data and self._packed.damage is not None:
            raise self._packed.damage
        return data

    def close(self) -> None:
        """See RawIOBase."""
        self._packed.close()
        super().close()


@contextmanager
def opened(raw: Raw, codec: str = "") -> Iterator[Bytes]:
    """A stream, behind its decompressor if it has a codec."""
    with Bytes(raw) if not codec else Bytes(Unpacked(Bytes(raw), codec)) as file:
        yield file
