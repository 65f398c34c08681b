"""Compressed content: how a file is compressed, by its first bytes, and how it is decompressed.

A decompressor gives all bytes that are before damage, then raises Rejection.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from shard_format import Readable

# The beginning of a file, by its codec.
_MAGIC = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd",),
    "bz2": (b"BZh",),
    "xz": (b"\xfd7zXZ\0",),
}
# Of a zlib stream, the other compression of TFRecord files.
ZLIB_MAGIC = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # how its first block, or its end, begins
_INPUT_BYTES = 1 << 16  # 64 KiB of compressed bytes at a time
_STEP_READ_BYTES = 1 << 15  # 32 KiB at a time of a library's decompressor, lost before damage
_STEP_BYTES = 16  # of a block with damage in it: the bytes lost before the damage
GZIP_WINDOW = 31  # window bits: a gzip header and a checksum around the stream
RAW_DEFLATE = -15  # window bits: nothing around it
ZLIB_WINDOW = 15  # window bits: a zlib header and a checksum
# What the decompressors raise for damaged data, besides OSError.
_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, ValueError)


def codec_of(head: bytes) -> str:
    """How a file is compressed, by its first bytes; "" if it is not.

    Text may begin with "BZh", so a bzip2 header must be whole. zlib streams have no magic worth
    the name ("x^2 + y" begins as one): see ZLIB_MAGIC.
    """
    if head.startswith(b"BZh"):
        return "bz2" if head[4:10] in _BZ2_BLOCKS or (len(head) < 10 and b"\0" in head) else ""
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), "")


class Gzip:
    """The members of a gzip file, one after the other; zeros after the last are not damage.

    Unlike the standard library's reader it gives all bytes before damage, not only whole blocks.
    Arrow's takes the zeros for damage, which tapes and tar leave there.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._inflater = Inflater(file, GZIP_WINDOW)

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end.

        Raises:
            Rejection: The data are damaged from here on.
        """
        while True:
            data = self._inflater.read(size)
            if data or not size:
                return data
            rest = self._inflater.unused.lstrip(b"\0")
            while not rest and (block := self._file.read(_INPUT_BYTES)):
                rest = block.lstrip(b"\0")
            if not rest:
                return b""
            if rest[:1] != b"\x1f":
                raise Rejection("damaged-stream", "after its last member there is no further one")
            self._inflater = Inflater(self._file, GZIP_WINDOW, rest)


class Inflater:
    """One deflate stream.

    Args:
        file: Has the compressed bytes.
        window: Window bits, as zlib takes them: which header is around the stream.
        start: Bytes of the stream that were read before.

    Attributes:
        unused: Bytes that were read past its end.
    """

    def __init__(self, file: IO[bytes], window: int, start: bytes = b"") -> None:
        self._file = file
        self._inflater = zlib.decompressobj(window)
        self._input = start
        self._error: zlib.error | None = None
        self.unused = b""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end.

        Raises:
            Rejection: The data are damaged from here on.
        """
        while size and not self._inflater.eof:
            if self._error is not None:
                raise Rejection("damaged-stream", f"decompressing fails: {self._error}")
            block = self._input or self._file.read(_INPUT_BYTES)
            if not block:
                raise Rejection("damaged-stream", "decompressing fails: the stream ends too early")
            before = self._inflater.copy()
            try:
                data = self._inflater.decompress(block, size)
                self._input = self._inflater.unconsumed_tail
            except zlib.error as error:
                data = self._before_damage(error, before, block, size)
            if self._inflater.eof:
                self.unused, self._input = self._inflater.unused_data, b""
            if data:
                return data
        return b""

    def _before_damage(self, error: zlib.error, inflater: Any, block: bytes, size: int) -> bytes:
        """The bytes before the damage in a block; the rest is given up."""
        self._error = error
        parts: list[bytes] = []
        try:
            for at in range(0, len(block), _STEP_BYTES):
                parts.append(inflater.decompress(block[at : at + _STEP_BYTES]))
        except zlib.error:
            pass
        return b"".join(parts)[:size]


class _Checked:
    """A library's decompressor, with its errors as rejections."""

    def __init__(self, stream: Any) -> None:
        # A read that collects several blocks would lose those before the damage.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""
        try:
            return self._read(min(size, _STEP_READ_BYTES))
        except _DAMAGE as error:
            raise Rejection("damaged-stream", f"decompressing fails: {error}") from error
        except OSError as error:
            # bz2 and Arrow raise OSError with text alone for damage; the system's have a number.
            if error.errno is not None:
                raise
            raise Rejection("damaged-stream", f"decompressing fails: {error}") from error


# The content of a compressed file by its codec, to the end of its last member (pigz, zstd -T). A
# read raises Rejection where the data are damaged or end too early.
DECOMPRESSORS: dict[str, Callable[[Any], Readable]] = {
    "gzip": Gzip,
    "zlib": lambda file: Inflater(file, ZLIB_WINDOW),
    "zstd": lambda file: _Checked(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")),
    "bz2": lambda file: _Checked(bz2.BZ2File(file)),
    "xz": lambda file: _Checked(lzma.LZMAFile(file)),
}
