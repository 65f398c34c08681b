"""Deflated streams, and gzip files of them, that give all there is before damage."""

from __future__ import annotations

import zlib
from typing import IO, Any

from beam_jobs.corpus.record import Rejection

_PACKED_BYTES = 1 << 16  # 64 KiB of a deflated stream at a time
_STEP_BYTES = 16  # of a block with damage in it: what is lost before the damage
_GZIP = 31  # window bits: a gzip header and a checksum around the stream
RAW_DEFLATE = -15  # window bits: nothing around it


class Gzip:
    """The members of a gzip file one after the other; zeros behind the last are not damage.

    Unlike the standard library's, it gives all that lies before damage, not whole blocks alone.
    """

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._inflater = Inflater(packed, _GZIP)
        self._begun = False

    def read(self, size: int, /) -> bytes:
        """Up to that many bytes; none at the end.

        Raises:
            Rejection: The data is damaged from here on.
        """
        while True:
            data = self._inflater.read(size)
            if data:
                self._begun = True
                return data
            rest = self._inflater.unused.lstrip(b"\0")
            while not rest and (block := self._packed.read(_PACKED_BYTES)):
                rest = block.lstrip(b"\0")
            if not rest:
                return b""
            if rest[:1] != b"\x1f":
                raise Rejection("damaged-stream", "behind its last member there is no further one")
            self._inflater = Inflater(self._packed, _GZIP, rest)


class Inflater:
    """One deflated stream.

    Args:
        packed: Where it lies.
        window: As zlib takes it: what is around the stream.
        start: Bytes of it that were read before.

    Attributes:
        unused: Bytes that were read behind its end.
    """

    def __init__(self, packed: IO[bytes], window: int, start: bytes = b"") -> None:
        self._packed = packed
        self._inflater = zlib.decompressobj(window)
        self._waiting = start
        self._error: zlib.error | None = None
        self.unused = b""

    def read(self, size: int, /) -> bytes:
        """Up to that many bytes; none at the end.

        Raises:
            Rejection: The data is damaged from here on.
        """
        while size and not self._inflater.eof:
            if self._error is not None:
                raise Rejection("damaged-stream", f"decompressing fails: {self._error}")
            waiting = self._waiting or self._packed.read(_PACKED_BYTES)
            if not waiting:
                raise Rejection("damaged-stream", "decompressing fails: the stream ends too early")
            before = self._inflater.copy()
            try:
                data = self._inflater.decompress(waiting, size)
                self._waiting = self._inflater.unconsumed_tail
            except zlib.error as error:
                data = self._up_to(error, before, waiting, size)
            if self._inflater.eof:
                self.unused, self._waiting = self._inflater.unused_data, b""
            if data:
                return data
        return b""

    def _up_to(self, error: zlib.error, inflater: Any, block: bytes, size: int) -> bytes:
        """What lies before the damage in a block; the rest is given up."""
        self._error = error
        parts: list[bytes] = []
        try:
            for at in range(0, len(block), _STEP_BYTES):
                parts.append(inflater.decompress(block[at : at + _STEP_BYTES]))
        except zlib.error:
            pass
        return b"".join(parts)[:size]
