"""A member of a zip archive as a stream, checked against its checksum at its end."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from typing import IO, Any

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.inflating import RAW_DEFLATE, Inflater
from beam_jobs.sources.ranges import read_range
from beam_jobs.sources.streams import Bytes, Range, Raw
from beam_jobs.sources.zip import ZipPlace
from beam_jobs.sources.zip_directory import LOCAL_BYTES, data_offset

_STORED, _DEFLATED, _AS_IT_IS = 0, 8, -1
_DAMAGE = (zipfile.BadZipFile, lzma.LZMAError, RuntimeError, EOFError, ValueError)


class ZipMember(Raw):
    """See Raw.

    Args:
        path: The archive.
        place: Where in it the member lies.
    """

    def __init__(self, path: bytes, place: ZipPlace) -> None:
        super().__init__()
        self._path, self._place = path, place
        self._crc = self._size = 0
        self._stream: Any = None
        self._files: list[IO[bytes] | zipfile.ZipFile] = []

    def more(self, size: int) -> bytes:
        """See Raw."""
        if self._stream is None:
            self._stream = self._opened()
        try:
            data: bytes = self._stream.read(size)
        except _DAMAGE as error:
            method = self._place.method
            raise Rejection("damaged-record", f"method {method} gives {error}") from None
        self._size += len(data)
        self._crc = zlib.crc32(data, self._crc)
        if self._place.method != _AS_IT_IS:
            self._check(is_end=not data)
        return data

    def close(self) -> None:
        """See RawIOBase."""
        for file in reversed(self._files):
            file.close()
        self._files.clear()
        super().close()

    def _check(self, is_end: bool) -> None:
        declared, found = (self._place.size, self._place.crc), (self._size, self._crc)
        if self._size > declared[0]:
            raise Rejection("damaged-record", f"{declared[0]} bytes are declared, more are packed")
        if is_end and found != declared:
            raise Rejection(
                "damaged-record",
                f"{declared[0]} bytes with CRC-32 {declared[1]:08x} are declared, got {found[0]} "
                f"with {found[1]:08x}",
            )

    def _opened(self) -> Any:
        place = self._place
        if place.method not in (_STORED, _DEFLATED, _AS_IT_IS):
            return self._by_zipfile()
        header = read_range(self._path, place.offset, LOCAL_BYTES)
        packed = Bytes(Range(self._path, data_offset(header, place.offset), place.packed))
        self._files.append(packed)
        return Inflater(packed, RAW_DEFLATE) if place.method == _DEFLATED else packed

    def _by_zipfile(self) -> IO[bytes]:
        """A member packed by a rare method (bzip2, LZMA)."""
        try:
            archive = zipfile.ZipFile(os.fsdecode(self._path))
            self._files.append(archive)
            for info in archive.infolist():
                if info.header_offset == self._place.offset:
                    file = archive.open(info)
                    self._files.append(file)
                    return file
        except _DAMAGE as error:
            detail = f"method {self._place.method} gives {error}"
            raise Rejection("damaged-record", detail) from None
        raise Rejection("damaged-record", f"no member begins at byte {self._place.offset}")
