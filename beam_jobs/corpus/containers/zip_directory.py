"""The central directory of a zip archive, entry by entry.

The standard library's zipfile makes an object of each entry, about a kilobyte, and keeps them all;
this keeps none. Format: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.4.
"""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

from beam_jobs.corpus.record import Locator, Rejection
from foundation.storage import RandomAccessFile

FOLDER, ENCRYPTED = "a folder", "encrypted"
LOCAL_BYTES = 30  # of a local header, without name and extra field
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


class ZipEntry(NamedTuple):
    """One file of the archive.

    Attributes:
        name: With slashes between folders.
        locator: Where it is, as the directory declares it.
        kind: "" of a regular file; otherwise its kind: "encrypted", "a symbolic link", ...
    """

    name: bytes
    locator: Locator
    kind: str


def read_directory(file: RandomAccessFile) -> Iterator[ZipEntry]:
    """Every entry in the order of the directory.

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
        yield _entry(fields, data[names:extras], data[extras : extras + fields[11]], shift)
        at = extras + fields[11] + fields[12]


def data_offset(header: bytes, offset: int) -> int:
    """Where the bytes of an entry begin, by its local header at an offset.

    Raises:
        Rejection: There is no such header.
    """
    if len(header) < LOCAL_BYTES or header[:4] != b"PK\3\4":
        raise Rejection("damaged-record", f"there is no header of a member at byte {offset}")
    fields = _LOCAL.unpack_from(header)
    return int(offset + LOCAL_BYTES + fields[9] + fields[10])


def _find_directory(file: RandomAccessFile) -> tuple[int, int, int, int]:
    """(start, bytes, entries, bytes before the archive in the file) of the directory."""
    file_size = file.size
    tail_start = max(0, file_size - _MAX_COMMENT_BYTES - _END.size)
    tail = file.read_at(tail_start, file_size - tail_start)
    found = tail.rfind(b"PK\5\6")
    if found < 0 or found + _END.size > len(tail):
        raise Rejection("not-a-zip", "it has no directory at its end")
    _, _, _, _, entries, size, start, _ = _END.unpack_from(tail, found)
    end = tail_start + found
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


def _entry(fields: tuple[int, ...], name: bytes, extra: bytes, shift: int) -> ZipEntry:
    _, made_by, _, flags, method, _, _, crc, stored, size, *_, attributes, offset = fields
    if _ALL_ONES_32 in (stored, size, offset):
        size, stored, offset = _zip64(extra, size, stored, offset)
    system, mode = made_by >> 8, attributes >> 16
    if system == _MADE_ON_FAT and b"/" not in name:
        name = name.replace(b"\\", b"/")  # as some Windows programs wrote them
    kind = ""
    if name.endswith(b"/"):
        kind = FOLDER
    elif flags & _FLAG_ENCRYPTED:
        kind = ENCRYPTED
    elif system == _MADE_ON_UNIX and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "a device, a pipe or a socket"
    locator = Locator("zip", "", offset + shift, size, stored, crc, method)
    return ZipEntry(_utf8(name, flags), locator, kind)


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
