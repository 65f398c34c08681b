"""Zip archives: members with a checksum each, stored or compressed on their own.

The standard library's zipfile makes an object of each entry, about a kilobyte, and keeps them all;
this keeps none. Format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.4.
"""

from __future__ import annotations

import bz2
import lzma
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from typing_extensions import override

from beam_jobs.corpus.codecs import RAW_DEFLATE, Inflater
from beam_jobs.corpus.containers.base import ArchiveReport, Container, Member, make_member
from beam_jobs.corpus.record import Locator, Rejection, SourceItem
from beam_jobs.corpus.source_io import UnreadableError, file_of, retried
from beam_jobs.corpus.streams import ByteStream, FileRange, RawStream, opened
from foundation import storage
from foundation.storage import RandomAccessFile
from shard_format import Readable

_LOCAL_BYTES = 30  # of a local header, without name and extra field
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_MAX_COMMENT_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20  # 1 MiB of the directory in memory at a time
_FLAG_ENCRYPTED, _UTF_8 = 0x1, 0x800
_MADE_ON_UNIX, _MADE_ON_FAT = 3, 0
_ALL_ONES_32, _ZIP64_EXTRA = 0xFFFFFFFF, 1


def _read_directory(file: RandomAccessFile) -> Iterator[Member]:
    """Every file in the order of the directory.

    Raises:
        Rejection: There is no directory, or it is damaged; entries before the damage were given.
    """
    start, size, entries, shift = _find_directory(file)
    position, end, data, at = start, start + size, b"", 0
    for number in range(entries):
        if len(data) - at < 3 * _MAX_COMMENT_BYTES + _CENTRAL.size and position < end:
            more = file.read_at(position, min(_BLOCK_BYTES, end - position))
            data, at, position = data[at:] + more, 0, position + len(more)
        if len(data) - at < _CENTRAL.size or data[at : at + 4] != b"PK\1\2":
            raise Rejection(
                "damaged-archive", f"the directory ends after {number} of {entries} entries"
            )
        fields = _CENTRAL.unpack_from(data, at)
        names = at + _CENTRAL.size
        extras = names + fields[10]
        extra = data[extras : extras + fields[11]]
        member = _member(fields, data[names:extras], extra, shift)
        if member is not None:
            yield member
        at = extras + fields[11] + fields[12]


def _data_offset(header: bytes, offset: int) -> int:
    """Where the bytes of an entry begin, by its local header at an offset.

    Raises:
        Rejection: There is no such header.
    """
    if len(header) < _LOCAL_BYTES or header[:4] != b"PK\3\4":
        raise Rejection("damaged-record", f"there is no header of a member at byte {offset}")
    fields = _LOCAL.unpack_from(header)
    return int(offset + _LOCAL_BYTES + fields[9] + fields[10])


def _find_directory(file: RandomAccessFile) -> tuple[int, int, int, int]:
    """(start, bytes, entries, bytes before the archive in the file) of the directory."""
    file_size = file.size
    tail_start = max(0, file_size - _MAX_COMMENT_BYTES - _END.size)
    tail = file.read_at(tail_start, file_size - tail_start)
    end_record = tail.rfind(b"PK\5\6")
    if end_record < 0 or end_record + _END.size > len(tail):
        raise Rejection("not-a-zip", "it has no directory at its end")
    _, _, _, _, entries, size, start, _ = _END.unpack_from(tail, end_record)
    end = tail_start + end_record
    locator = file.read_at(max(0, end - _END_64_LOCATOR.size), _END_64_LOCATOR.size)
    if locator[:4] == b"PK\6\7":
        # Right before its locator, unless there is a rare extensible sector.
        record = end - _END_64_LOCATOR.size - _END_64.size
        large = file.read_at(max(0, record), _END_64.size)
        if large[:4] == b"PK\6\6" and len(large) == _END_64.size:
            *_, entries, size, start = _END_64.unpack(large)
            end = record
    # Bytes before the archive (a program that unpacks it) shift all its offsets.
    shift = end - size - start
    if shift < 0:
        raise Rejection("damaged-archive", f"the directory has {size} bytes, more than the file")
    return start + shift, size, entries, shift


def _member(fields: tuple[int, ...], name: bytes, extra: bytes, shift: int) -> Member | None:
    """The member of an entry; None if that is a folder."""
    _, made_by, _, flags, method, _, _, crc, stored, size, *_, attributes, offset = fields
    if _ALL_ONES_32 in (stored, size, offset):
        size, stored, offset = _zip64(extra, size, stored, offset)
    system, mode = made_by >> 8, attributes >> 16
    if system == _MADE_ON_FAT and b"/" not in name:
        name = name.replace(b"\\", b"/")  # as some Windows programs wrote them
    if name.endswith(b"/"):
        return None
    name = _utf8(name, flags)
    locator = Locator("zip", "", offset + shift, size, stored, crc, method)
    if flags & _FLAG_ENCRYPTED:
        locator = locator._replace(size=stored, method=_NOT_DECOMPRESSED)
        detail = "a password is needed to read it"
        return make_member(name, "", locator)._replace(reason="encrypted", detail=detail)
    kind = ""
    if system == _MADE_ON_UNIX and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a device, a pipe or a socket"
    return make_member(name, kind, locator)


def _utf8(name: bytes, flags: int) -> bytes:
    """The name in UTF-8: many programs write that without saying so, others code page 437."""
    if flags & _UTF_8 or name.isascii():
        return name
    try:
        name.decode()
    except UnicodeDecodeError:
        return name.decode("cp437").encode()
    return name


def _zip64(extra: bytes, size: int, stored: int, offset: int) -> tuple[int, int, int]:
    """(size, stored, offset) with those that do not fit in 32 bits taken from the extra field."""
    values, at = [size, stored, offset], 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_EXTRA:
            large = extra[at + 4 : at + 4 + length]
            for number, value in enumerate(values):
                if value == _ALL_ONES_32 and len(large) >= 8:
                    values[number] = struct.unpack_from("<Q", large)[0]
                    large = large[8:]
            break
        at += 4 + length
    return values[0], values[1], values[2]


_STORED, _DEFLATED, _BZIP2, _LZMA = 0, 8, 12, 14  # APPNOTE.TXT 6.3.10, section 4.4.5
_NOT_DECOMPRESSED = -1  # the stored bytes, of a member that cannot be decompressed
_MAX_KEPT_BYTES = 16 << 20  # 16 MiB of a member that holds more than it declares
_INPUT_BYTES = 1 << 16  # 64 KiB of compressed bytes at a time
_LZMA_HEADER = struct.Struct("<2sHBI")  # version of the SDK, size of the properties, properties
_LZMA_PROPERTIES = 5  # bytes
_MIN_DICTIONARY_BYTES = 4 << 10  # 4 KiB, the least that liblzma takes
_MAX_DICTIONARY_BYTES = 64 << 20  # 64 MiB, the largest that LZMA's presets use; more is damage


class Zip(Container):
    """Zip archives."""

    @override
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        archive = retried(lambda: storage.open_random(file_of(file.path)), file.path)
        try:
            yield from _read_directory(archive)
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
            self._content = self._open_stored()
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

    def _open_stored(self) -> Readable:
        locator = self._locator
        method = _METHODS.get(locator.method)
        if method is None:
            detail = f"compression method {locator.method} is not supported"
            raise Rejection("damaged-record", detail)
        with opened(FileRange(self._path, locator.offset, _LOCAL_BYTES)) as file:
            header = file.read(_LOCAL_BYTES)
        start = _data_offset(header, locator.offset)
        self._stored = ByteStream(FileRange(self._path, start, locator.stored_size))
        return method(self._stored)


class _Decompressing:
    """The content of a bzip2 or LZMA stream, never more in memory than is asked for."""

    def __init__(self, stored: ByteStream, decompressor: Any) -> None:
        self._stored = stored
        self._decompressor = decompressor

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""
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
