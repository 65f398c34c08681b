"""Files of other machines: requested ahead as they are read, and kept here until they are whole."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from typing_extensions import override

from foundation.storage.base import RandomAccessFile

# What a first read asks for at least: a head to inspect, or a whole small file.
_FIRST_BYTES = 32 << 10  # 32 KiB
_STREAK_BYTES = 512 << 10  # 512 KiB, of a second read that begins where the first ended
_BLOCK_BYTES = 4 << 20  # 4 MiB, of the longest reads
_WINDOW_BYTES = 16 << 20  # 16 MiB in flight or waiting at most
# A reader that skips less than this is taken to read on in sequence: of a tar archive with members
# of 100 kB the bytes cost less than a request for each header.
_HOP_BYTES = 1 << 20  # 1 MiB


# A new file waits in memory up to this size, and is sent in one request; a larger one waits in a
# local file.
HELD_BYTES = 32 << 20  # 32 MiB
_BUFFER_BYTES = 256 << 10  # 256 KiB


class Answer(NamedTuple):
    """A range of an object; shorter than asked for at its end.

    Attributes:
        data: The bytes.
        size: Size of the whole object in bytes.
    """

    data: bytes
    size: int


class Block(NamedTuple):
    """A range of an object that was requested.

    Attributes:
        start: First byte.
        end: One behind the last; the object may end before.
        answer: The bytes.
    """

    start: int
    end: int
    answer: Future[Answer]


class ObjectFile(RandomAccessFile):
    """An object that is read at any place.

    Args:
        request: Function that requests a range from an offset, of a size or another one.
        find_size: Function that asks for the size of the object.
    """

    def __init__(self, request: Callable[[int, int], Block], find_size: Callable[[], int]) -> None:
        self._request = request
        self._find_size = find_size
        self._size: int | None = None
        self._blocks: deque[Block] = deque()  # each begins where the one before ends
        self._end = -1  # of the last block that was asked for
        self._window = 0  # bytes to have in flight behind the position

    @property
    @override
    def size(self) -> int:
        if self._size is None:
            self._size = self._find_size()
        return self._size

    @override
    def read_at(self, offset: int, size: int) -> bytes:
        if size <= 0 or (self._size is not None and offset >= self._size):
            return b""
        block = self._block_at(offset, size)
        try:
            answer = block.answer.result()
        except BaseException:
            self.close()
            raise
        self._size = answer.size
        if self._window:
            self._fill(offset)
        return answer.data[offset - block.start : offset - block.start + size]

    @override
    def read_into(self, offset: int, buffer: memoryview) -> int:
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @override
    def close(self) -> None:
        for block in self._blocks:
            block.answer.cancel()
        self._blocks.clear()

    def _block_at(self, offset: int, size: int) -> Block:
        """The block with an offset; the window grows with every wait for the next in sequence."""
        if self._blocks and not self._blocks[0].start <= offset < self._end:
            self.close()
        if self._blocks and offset < self._blocks[0].end:
            return self._blocks[0]
        if 0 <= offset - self._end <= _HOP_BYTES or self._blocks:
            self._window = min(_WINDOW_BYTES, max(_STREAK_BYTES, self._window * 4))
        else:
            self._window = 0
        while self._blocks and self._blocks[0].end <= offset:
            self._blocks.popleft().answer.cancel()
        if not self._blocks:
            self._end = offset
            self._ask(max(size, self._block_bytes))
        return self._blocks[0]

    @property
    def _block_bytes(self) -> int:
        return min(_BLOCK_BYTES, max(_FIRST_BYTES, self._window // 4))

    def _fill(self, offset: int) -> None:
        """Requests the window behind an offset."""
        while self._end < min(offset + self._window, self.size):
            self._ask(min(self._block_bytes, self.size - self._end))

    def _ask(self, size: int) -> None:
        block = self._request(self._end, size)
        self._end = block.end
        self._blocks.append(block)


class _RawObject(io.RawIOBase):
    """An object as Python's buffered streams read it."""

    def __init__(self, file: RandomAccessFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int:
        size = self._file.read_into(self._position, memoryview(buffer))
        self._position += size
        return size

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = {io.SEEK_CUR: self._position, io.SEEK_END: 0}.get(whence, 0)
        begin = self._file.size if whence == io.SEEK_END else begin
        self._position = max(0, begin + offset)
        return self._position

    @override
    def tell(self) -> int:
        return self._position

    @override
    def close(self) -> None:
        self._file.close()
        super().close()


def buffered(file: RandomAccessFile) -> io.BufferedReader:
    """A stream of Python over a file that is read at any place."""
    return io.BufferedReader(_RawObject(file), _BUFFER_BYTES)


@contextlib.contextmanager
def spooled(scratch: Path | None) -> Iterator[BinaryIO]:
    """A new file on this machine, until it is whole and can be sent."""
    with tempfile.SpooledTemporaryFile(HELD_BYTES, dir=str(scratch) if scratch else None) as spool:
        yield cast(BinaryIO, spool)
