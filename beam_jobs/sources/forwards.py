"""Files that are gone through once, from one header to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from beam_jobs.sources.compression import Stream, open_stream, read_exactly

_SKIP_BYTES = 1 << 16  # 64 KiB: what is lost of a stream before damage


class Forwards(Protocol):
    """A file that is read from its beginning to its end; `position` is how far."""

    position: int

    def take(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""

    def skip(self, size: int) -> int:
        """Goes over the next bytes; how many there were."""


class _Plain:
    """A file that is not compressed: skipping costs nothing."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.position = 0
        self._end = os.fstat(descriptor).st_size

    def take(self, size: int) -> bytes:
        """See Forwards."""
        data = os.pread(self._descriptor, size, self.position)
        self.position += len(data)
        return data

    def skip(self, size: int) -> int:
        """See Forwards."""
        skipped = max(0, min(size, self._end - self.position))
        self.position += skipped
        return skipped


class _Compressed:
    """A file behind a decompressor."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.position = 0

    def take(self, size: int) -> bytes:
        """See Forwards."""
        data = read_exactly(self._stream, size)
        self.position += len(data)
        return data

    def skip(self, size: int) -> int:
        """See Forwards."""
        left = size
        while left and (data := self._stream.read(min(left, _SKIP_BYTES))):
            left -= len(data)
            self.position += len(data)
        return size - left


@contextmanager
def open_forwards(path: bytes, codec: str) -> Iterator[Forwards]:
    """Opens a file, compressed or not (`codec` is "" then).

    Reading raises Rejection where a compressed file is damaged, OSError where the disk is.
    """
    if codec:
        with open_stream(path, codec) as stream:
            yield _Compressed(stream)
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield _Plain(descriptor)
    finally:
        os.close(descriptor)
