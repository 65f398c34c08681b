"""The members of a gzip file of WARC records, in which reading can continue after damage."""

from __future__ import annotations

import zlib

from typing_extensions import override

from beam_jobs.corpus.codecs import GZIP_WINDOW
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.streams import ByteStream, RawStream

_GZIP_MAGIC = b"\x1f\x8b\x08"
_PACKED_BYTES = 1 << 12  # 4 KiB at a time: the bytes lost of a member before damage
_KEPT_BYTES = 16 << 20  # 16 MiB: a longer member is not searched again, nor kept
_GAP_BYTES = 64 << 20  # 64 MiB of damage are kept
_LOOKED_AT_BYTES = 1 << 14  # 16 KiB of compressed bytes show whether a record begins there
BEGINS = b"WARC/"


class GzipMembers(RawStream):
    """The content of a gzip file in which reading can continue after a damaged member."""

    def __init__(self, compressed: ByteStream) -> None:
        super().__init__(compressed)
        self._compressed = compressed
        self._waiting = b""
        self._member = bytearray()  # the compressed member, as far as it was read
        self._inflater: zlib._Decompress | None = None

    @override
    def more(self, size: int) -> bytes:
        while True:
            if not self._waiting:
                self._waiting = self._compressed.read(_PACKED_BYTES)
            if self._inflater is None:
                self._waiting = self._waiting.lstrip(b"\0")
                if not self._waiting and not self._compressed.peek(1):
                    if self._compressed.damage is not None:
                        raise self._compressed.damage
                    return b""
                if not self._waiting:
                    continue
                self._inflater, self._member = zlib.decompressobj(GZIP_WINDOW), bytearray()
            elif not self._waiting:
                cut = Rejection("damaged-stream", "decompressing fails: a member ends too early")
                raise self._compressed.damage or cut
            data = self._inflated(size)
            if data:
                return data

    def _inflated(self, size: int) -> bytes:
        inflater, waiting = self._inflater, self._waiting
        if inflater is None:
            return b""
        try:
            data = inflater.decompress(waiting, size)
        except zlib.error as error:
            self._member += waiting
            self._waiting = b""
            raise Rejection("damaged-stream", f"decompressing fails: {error}") from None
        self._waiting = inflater.unconsumed_tail or inflater.unused_data
        if len(self._member) <= _KEPT_BYTES:
            self._member += waiting[: len(waiting) - len(self._waiting)]
        if inflater.eof:
            self._inflater = None
        return data

    def recover(self) -> tuple[bytes | None, bool]:
        """(compressed bytes skipped, whether a record begins after them), after damage."""
        kept = len(self._member) <= _KEPT_BYTES
        gone = bytearray(self._member[:1])
        block = bytes(self._member[1:]) + self._waiting if kept else self._waiting
        while True:
            at = block.find(_GZIP_MAGIC)
            if at < 0 or len(block) - at < _LOOKED_AT_BYTES:
                more = self._compressed.read(_LOOKED_AT_BYTES)
                if more:
                    over = len(block) - len(_GZIP_MAGIC) + 1 if at < 0 else at
                    gone += block[: max(0, over)]
                    block = block[max(0, over) :] + more
                    kept = kept and len(gone) <= _GAP_BYTES
                    gone = gone if kept else bytearray()
                    continue
            if at < 0:
                gone += block
                return bytes(gone) if kept else None, False
            if _begins_record(block[at : at + _LOOKED_AT_BYTES]):
                gone += block[:at]
                self._waiting, self._inflater, self.damage = block[at:], None, None
                return bytes(gone) if kept else None, True
            gone += block[: at + 1]
            block = block[at + 1 :]


def _begins_record(compressed: bytes) -> bool:
    try:
        return zlib.decompressobj(GZIP_WINDOW).decompress(compressed, len(BEGINS)) == BEGINS
    except zlib.error:
        return False
