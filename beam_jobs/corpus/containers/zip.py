"""Zip archives: members with a checksum each, stored or compressed on their own."""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from typing_extensions import override

from beam_jobs.corpus.codecs import RAW_DEFLATE, Inflater, Readable
from beam_jobs.corpus.containers.base import ArchiveReport, Container, Member, make_member
from beam_jobs.corpus.containers.zip_directory import (
    ENCRYPTED,
    FOLDER,
    LOCAL_BYTES,
    data_offset,
    read_directory,
)
from beam_jobs.corpus.record import Locator, Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, file_of, retried
from beam_jobs.corpus.streams import ByteStream, FileRange, RawStream, opened
from foundation import storage

_STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14  # APPNOTE.TXT 6.3.10, section 4.4.5
_NOT_DECOMPRESSED = -1  # the stored bytes, of a member that cannot be decompressed
_MAX_KEPT_BYTES = 16 << 20  # 16 MiB of a member that holds more than it declares
_INPUT_BYTES = 1 << 16  # 64 KiB of compressed bytes at a time
_LZMA_HEADER = struct.Struct("<2sHBI")  # version of the SDK, size of the properties, properties
_LZMA_PROPERTIES = 5  # bytes
_MIN_DICTIONARY_BYTES = 4 << 10  # 4 KiB, the least that liblzma takes
_MAX_DICTIONARY_BYTES = 64 << 20  # 64 MiB, the largest that LZMA's presets use; more is damage


class Zip(Container):
    """See Container."""

    @override
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        archive = retried(lambda: storage.open_random(file_of(file.path)), file.path)
        try:
            for found in read_directory(archive):
                if found.kind == FOLDER:
                    continue
                locator = found.locator
                if found.kind != ENCRYPTED:
                    yield make_member(found.name, found.kind, locator)
                    continue
                locator = locator._replace(size=locator.stored_size, method=_NOT_DECOMPRESSED)
                yield make_member(found.name, "", locator)._replace(
                    reason="encrypted", detail="a password is needed to read it"
                )
        except Rejection as damage:
            if damage.reason != "damaged-archive":
                raise
            report.damage = damage
        except OSError as error:
            raise UnreadableError(file.path, error) from error
        finally:
            archive.close()

    @override
    def open(self, path: bytes, locator: Locator) -> RawStream:
        return _ZipMember(path, locator)


class _ZipMember(RawStream):
    """The bytes of a member, compared with its declared size and checksum."""

    def __init__(self, path: bytes, locator: Locator) -> None:
        super().__init__()
        self._path, self._locator = path, locator
        self._crc = self._size = 0
        self._stored: ByteStream | None = None
        self._content: Readable | None = None

    @override
    def more(self, size: int) -> bytes:
        if self._content is None:
            self._content = self._opened()
        method = self._locator.method
        try:
            data = self._content.read(size)
        except (lzma.LZMAError, EOFError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            detail = f"decompression method {method} fails: {error}"
            raise Rejection("damaged-record", detail) from None
        self._size += len(data)
        self._crc = zlib.crc32(data, self._crc)
        if method != _NOT_DECOMPRESSED:
            self._check(is_end=not data)
        return data

    @override
    def close(self) -> None:
        if self._stored is not None:
            self._stored.close()
        super().close()

    def _check(self, is_end: bool) -> None:
        size, crc = self._locator.size, self._locator.crc
        if self._size > size:
            detail = f"{size} bytes are declared, and more are stored"
            raise Rejection("damaged-record", detail, data=self._stored_bytes())
        if is_end and (self._size, self._crc) != (size, crc):
            raise Rejection(
                "damaged-record",
                f"{size} bytes with CRC-32 {crc:08x} are declared, got {self._size} with "
                f"{self._crc:08x}",
            )

    def _stored_bytes(self) -> bytes | None:
        """The compressed bytes, if they are few: they may decompress to anything."""
        if self._stored is None or self._locator.stored_size > _MAX_KEPT_BYTES:
            return None
        self._stored.seek(0)
        return self._stored.read()

    def _opened(self) -> Readable:
        locator = self._locator
        method = _METHODS.get(locator.method)
        if method is None:
            detail = f"compression method {locator.method} is not supported"
            raise Rejection("damaged-record", detail)
        with opened(FileRange(self._path, locator.offset, LOCAL_BYTES)) as file:
            header = file.read(LOCAL_BYTES)
        start = data_offset(header, locator.offset)
        self._stored = ByteStream(FileRange(self._path, start, locator.stored_size))
        return method(self._stored)


class _Decompressing:
    """The content of a bzip2 or LZMA stream, never more in memory than is asked for."""

    def __init__(self, stored: ByteStream, decompressor: Any) -> None:
        self._stored = stored
        self._decompressor = decompressor

    def read(self, size: int, /) -> bytes:
        """See Readable."""
        while not self._decompressor.eof:
            block = b""
            if self._decompressor.needs_input and not (block := self._stored.read(_INPUT_BYTES)):
                return b""  # LZMA streams may end without a mark; the checksum decides
            data: bytes = self._decompressor.decompress(block, size)
            if data:
                return data
        return b""


def _lzma(stored: ByteStream) -> Readable:
    """A raw LZMA stream after its header (APPNOTE.TXT, section 5.8.8)."""
    header = stored.read(_LZMA_HEADER.size)
    if len(header) < _LZMA_HEADER.size:
        raise Rejection("damaged-record", "the LZMA header is cut off")
    _, size, coding, dictionary = _LZMA_HEADER.unpack(header)
    if size != _LZMA_PROPERTIES or coding >= 9 * 5 * 5 or dictionary > _MAX_DICTIONARY_BYTES:
        raise Rejection("damaged-record", "the LZMA header is damaged")
    # One byte holds three parameters: (pb * 5 + lp) * 9 + lc.
    filters = [
        {
            "id": lzma.FILTER_LZMA1,
            "lc": coding % 9,
            "lp": coding // 9 % 5,
            "pb": coding // 9 // 5,
            "dict_size": max(dictionary, _MIN_DICTIONARY_BYTES),
        }
    ]
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
    return _Decompressing(stored, decompressor)


_METHODS: dict[int, Callable[[ByteStream], Readable]] = {
    _STORED: lambda stored: stored,
    _NOT_DECOMPRESSED: lambda stored: stored,
    _DEFLATED: lambda stored: Inflater(stored, RAW_DEFLATE),
    _BZIP2: lambda stored: _Decompressing(stored, bz2.BZ2Decompressor()),
    _LZMA: _lzma,
}
