"""Records that are byte ranges of files, which may be compressed.

Of a plain file a range is read where it lies. A compressed one can be read forwards only, while
the records of a unit are wanted in any order: so it is read once and the ranges that the unit wants
are copied to a scratch file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.base import MAX_RECORD_BYTES, check_size
from beam_jobs.sources.compression import Stream, open_stream, skip

_BLOCK_BYTES = 1 << 16  # 64 KiB: what is lost of a stream before damage


class Place(NamedTuple):
    """Where bytes lie: "512+3000" in a plain file, "gzip:512+3000" in the content of another.

    Attributes:
        codec: How the file is compressed; "" if it is not.
        offset: Of the first byte, behind decompression.
        size: How many.
    """

    codec: str
    offset: int
    size: int

    def __str__(self) -> str:
        place = f"{self.offset}+{self.size}"
        return f"{self.codec}:{place}" if self.codec else place

    @classmethod
    def parse(cls, text: str) -> Place:
        """The inverse of str()."""
        codec, _, place = text.rpartition(":")
        offset, _, size = place.partition("+")
        return cls(codec, int(offset), int(size))


def read_range(path: bytes, offset: int, size: int) -> bytes:
    """A range of a plain file.

    Raises:
        Rejection: It is too large, or the file has become shorter.
        OSError: It cannot be read.
    """
    check_size(size)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(descriptor, size, offset)
        # A system call gives 2 GiB at most, and a network file system less.
        while len(data) < size:
            more = os.pread(descriptor, size - len(data), offset + len(data))
            if not more:
                break
            data += more
    finally:
        os.close(descriptor)
    if len(data) < size:
        raise Rejection("truncated-file", f"{size} bytes are wanted at {offset}, got {len(data)}")
    return data


class Ranges:
    """Reads the ranges that it was opened for."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        # (offset in the scratch file, bytes) of the ranges of compressed files.
        self._copied: dict[tuple[bytes, Place], tuple[int, int]] = {}
        self._damage: dict[bytes, str] = {}

    def read(self, path: bytes, place: Place, *, cut: bool = False) -> bytes:
        """One range.

        Args:
            path: The file.
            place: The range.
            cut: Return what there is of it where the stream is damaged inside.

        Raises:
            Rejection: It is too large, or the stream it lies in is damaged before its end.
            OSError: The file cannot be read.
        """
        check_size(place.size)
        if not place.codec:
            return read_range(path, place.offset, place.size)
        if not place.size:
            return b""
        position, size = self._copied.get((path, place), (0, 0))
        if size < place.size and not cut:
            why = self._damage.get(path, "the stream ends too early")
            detail = f"{why}; of {place.size} bytes {size} can be read"
            raise Rejection("damaged-stream", detail)
        return read_range(os.fsencode(self._scratch), position, size)

    def copy(self, path: bytes, places: Iterable[Place], sink: IO[bytes]) -> None:
        """Copies ranges of one compressed file to the scratch file, as far as it can be read."""
        wanted = sorted({place for place in places if 0 < place.size <= MAX_RECORD_BYTES})
        if not wanted:
            return
        try:
            with open_stream(path, wanted[0].codec) as stream:
                self._copy_all(path, wanted, stream, sink)
        except Rejection as damage:
            self._damage[path] = damage.detail
        except OSError as error:
            self._damage[path] = f"reading fails: {error.strerror}"

    def _copy_all(self, path: bytes, wanted: list[Place], stream: Stream, sink: IO[bytes]) -> None:
        position = 0
        for place in wanted:
            if place.offset < position:  # no source lists ranges that overlap
                continue
            position += skip(stream, place.offset - position)
            start, size = sink.tell(), 0
            try:
                while data := stream.read(min(place.size - size, _BLOCK_BYTES)):
                    sink.write(data)
                    size += len(data)
            finally:
                self._copied[(path, place)] = start, size
            position += size


@contextmanager
def open_ranges(wanted: Iterable[tuple[bytes, Place]], scratch: Path) -> Iterator[Ranges]:
    """Opens ranges for reading in any order.

    Args:
        wanted: (file, range) of all of them.
        scratch: Where those of compressed files are kept while this lasts.
    """
    by_file: dict[bytes, list[Place]] = {}
    for path, place in wanted:
        if place.codec:
            by_file.setdefault(path, []).append(place)
    ranges = Ranges(scratch)
    try:
        if by_file:
            with scratch.open("wb", buffering=1 << 20) as sink:  # 1 MiB a system call
                for path, places in by_file.items():
                    ranges.copy(path, places, sink)
        yield ranges
    finally:
        scratch.unlink(missing_ok=True)
