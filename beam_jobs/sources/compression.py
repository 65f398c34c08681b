"""Compressed files as streams, told by their first bytes and not by their names."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa

from beam_jobs.corpus.record import Rejection

# The beginning of a file, by its codec.
_MAGIC = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd",),
    "bz2": (b"BZh",),
    "xz": (b"\xfd7zXZ\0",),
    "zlib": (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"),
}
_BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # how its first block, or its end, begins
_BLOCK_BYTES = 1 << 20  # 1 MiB a system call
_SKIP_BYTES = 1 << 16  # 64 KiB: what is lost of a stream before damage
# What the decompressors raise for damaged data, beside OSError.
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, ValueError)


class Stream(Protocol):
    """What is read forwards only."""

    def read(self, size: int, /) -> bytes:
        """Up to that many bytes; none at the end."""


def codec_of(path: bytes | Path) -> str:
    """How a file is compressed; "" if it is not."""
    with open(path, "rb") as file:
        head = file.read(6)
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), "")


def codec_of_head(head: bytes) -> str:
    """How a document's file is compressed, by its first bytes; "" if it is not.

    Stricter than `codec_of`: text may begin with "BZh", or as a zlib stream does ("x^2 + y").
    """
    if head.startswith(b"BZh"):
        return "bz2" if head[4:10] in _BZ2_BLOCKS or (len(head) < 10 and b"\0" in head) else ""
    found = next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), "")
    return "" if found == "zlib" else found


def checked_stream(file: IO[bytes], codec: str) -> Stream:
    """The content of a compressed stream; a read raises Rejection where the data is damaged."""
    return _Checked(_OPENERS[codec](file))


@contextmanager
def open_stream(path: bytes, codec: str) -> Iterator[Stream]:
    """The content of a compressed file.

    Files of several members (pigz, zstd with threads) are read to the end. A read raises Rejection
    where the data is damaged or ends too early.
    """
    with open(path, "rb", buffering=_BLOCK_BYTES) as file:
        yield _Checked(_OPENERS[codec](file))


def read_exactly(stream: Stream, size: int) -> bytes:
    """That many bytes, or fewer at the end."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def skip(stream: Stream, size: int) -> int:
    """Reads over that many bytes; how many there were."""
    left = size
    while left and (data := stream.read(min(left, _SKIP_BYTES))):
        left -= len(data)
    return size - left


class _Checked:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except _DAMAGE as error:
            raise Rejection("damaged-stream", f"decompressing fails: {error}") from error
        except OSError as error:
            # A disk that fails has a number; gzip, bz2 and Arrow give text alone.
            if error.errno is not None:
                raise
            raise Rejection("damaged-stream", f"decompressing fails: {error}") from error


class _ZlibStream:
    """One zlib stream, as TFRecord has it; the standard library has no file for it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decompressor = zlib.decompressobj()

    def read(self, size: int, /) -> bytes:
        while size and not self._decompressor.eof:  # zlib takes 0 for "without bound"
            data = self._decompressor.unconsumed_tail or self._file.read(1 << 16)
            if not data:
                raise EOFError("the file ends inside the stream")
            if found := self._decompressor.decompress(data, size):
                return found
        return b""


# Arrow's own gzip stream takes zeros behind the data for damage, which tapes and tar leave there.
_OPENERS: dict[str, Callable[[Any], Stream]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "zstd": lambda file: pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zlib": _ZlibStream,
}
