"""Tar archives, plain or compressed.

Members of a plain archive are read in place. A compressed one is read forwards, once.

The standard library's tarfile keeps every member in memory, takes damage in the middle for the end
of the archive, and needs about 20 microseconds for a member. Formats: POSIX.1-1988 (ustar),
POSIX.1-2001 (pax), GNU and V7, as in the pax utility of POSIX and the GNU tar manual, "Basic Tar
Format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import override

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.containers.base import NO_BYTES, ArchiveReport, Container, Member, make_member
from beam_jobs.corpus.record import ByteRange, Locator, Rejection, SourceItem
from beam_jobs.corpus.streams import (
    HEADER_BUFFER_BYTES,
    FileRange,
    RawStream,
    SequentialReader,
    opened,
)

_BLOCK_BYTES = 512
_MAX_NAME_BYTES = 1 << 20  # 1 MiB; a longer name or pax header is damage
_CHECKSUM = slice(148, 156)
_ZEROS = bytes(_BLOCK_BYTES)
_SIGNED = struct.Struct("148b8x356b")
FOLDER = "a folder"
_REGULAR = b"\x0007"  # type flags: 0x00 is of V7, and "7" a contiguous file
_NOT_FILES = {
    ord("1"): "a hard link",
    ord("2"): "a symbolic link",
    ord("3"): "a character device",
    ord("4"): "a block device",
    ord("6"): "a pipe",
    ord("S"): "a sparse file",
}


class TarMember(NamedTuple):
    """One entry of an archive.

    Attributes:
        name: As the archive spells it.
        offset: First byte in the decompressed archive.
        size: Bytes of the member.
        kind: "" of a regular file; otherwise its kind: "a symbolic link", ...
    """

    name: bytes
    offset: int
    size: int
    kind: str = ""


class TarGap(NamedTuple):
    """Bytes of an archive that belong to no member, because of damage.

    Attributes:
        offset: First byte.
        size: Number of bytes.
        why: The damage that was found.
    """

    offset: int
    size: int
    why: str


def read_headers(archive: SequentialReader) -> Iterator[TarMember | TarGap]:
    """Every member in order, and every range that damage has made unreadable."""
    reader = _HeaderReader(archive)
    start = 0
    try:
        while True:
            start = reader.position
            entry = reader.next()
            if entry is None:
                return
            yield entry
    except Rejection as damage:  # the stream itself ends here
        yield TarGap(start, max(0, reader.position - start), damage.detail)


class _HeaderReader:
    def __init__(self, archive: SequentialReader) -> None:
        self._archive = archive
        self._global: dict[str, bytes] = {}
        self._pushed_back = b""

    @property
    def position(self) -> int:
        """Of the next block."""
        return self._archive.position - len(self._pushed_back)

    def next(self) -> TarMember | TarGap | None:
        """The next member or gap; None at the end."""
        start = self.position
        extended: dict[str, bytes] = {}
        while True:
            at = self.position
            block = self._take(_BLOCK_BYTES)
            if len(block) < _BLOCK_BYTES:
                if not block.strip(b"\0") and start == at:
                    return None
                return TarGap(start, self.position - start, "the archive ends inside a header")
            if block == _ZEROS:
                # Two of them end an archive; joined archives continue after them.
                start = self.position
                extended = {}
                continue
            size = _number(block[124:136])
            if size < 0 or not _checksum_fits(block):
                return self._damaged(start, at)
            flag = block[156]
            if flag not in b"xgXLK":
                return self._member(start, block, size, extended)
            if size > _MAX_NAME_BYTES:
                self._archive.skip(size)
                return TarGap(start, self.position - start, f"a name has {size} bytes")
            content = self._take(size)
            self._archive.skip(-size % _BLOCK_BYTES)
            if len(content) < size:
                return TarGap(start, self.position - start, "the archive ends inside a name")
            if flag in b"LK":
                extended["path" if flag == ord("L") else "linkpath"] = content.rstrip(b"\0")
            elif flag == ord("g"):
                self._global |= _pax(content)
            else:
                extended |= _pax(content)

    def _member(
        self, start: int, block: bytes, size: int, extended: dict[str, bytes]
    ) -> TarMember | TarGap:
        fields = {**self._global, **extended} if self._global else extended
        if "size" in fields and fields["size"].isdigit():
            size = int(fields["size"])
        name = fields.get("path") or _name(block)
        offset, flag = self.position, block[156]
        folder = flag == ord("5") or (flag in _REGULAR and name.endswith(b"/"))
        kind = ""
        if flag not in _REGULAR:
            kind = _NOT_FILES.get(flag, f"an entry of type {chr(flag)!r}")
        if folder or flag in b"12346":
            size = 0  # no bytes follow, whatever the header says
        if any(key.startswith("GNU.sparse") for key in fields):
            kind = _NOT_FILES[ord("S")]
        if flag == ord("S") and block[482]:  # more of the map follows
            while (more := self._take(_BLOCK_BYTES)) and more[504:505] not in (b"", b"\0"):
                pass
        if self._archive.skip(size) < size:
            return TarGap(
                start,
                self.position - start,
                f"the archive ends inside {name.decode('utf-8', 'backslashreplace')[:200]!r}, "
                f"which has {size} bytes",
            )
        self._archive.skip(-size % _BLOCK_BYTES)
        return TarMember(name, offset, size, FOLDER if folder else kind)

    def _damaged(self, start: int, at: int) -> TarGap:
        """The range from here to the next block that is a header."""
        why = "a header does not match its checksum"
        while True:
            here = self.position
            block = self._take(_BLOCK_BYTES)
            if len(block) < _BLOCK_BYTES:
                return TarGap(start, self.position - start, why)
            if block[257:262] == b"ustar" and _checksum_fits(block):
                self._pushed_back = block
                return TarGap(start, here - start, why)

    def _take(self, size: int) -> bytes:
        if self._pushed_back:
            data, self._pushed_back = self._pushed_back, b""
            return data
        return self._archive.take(size)


def is_header(block: bytes) -> bool:
    """Whether an archive that is not compressed may begin with this block."""
    return len(block) == _BLOCK_BYTES and (block == _ZEROS or _checksum_fits(block))


def _checksum_fits(block: bytes) -> bool:
    stored = _number(block[_CHECKSUM])
    unsigned = sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ")
    # Some old writers added the bytes as signed ones: of one in 10,000 random blocks that gives the
    # -1 of a field without a number.
    signed = sum(_SIGNED.unpack(block)) + 8 * ord(" ")
    return stored > 0 and stored in (unsigned, signed)


def _number(field: bytes) -> int:
    """A number in octal, or in base 256 where the first bit is set; -1 if it is neither."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text, 8) if text else 0
    except ValueError:
        return -1


def _name(block: bytes) -> bytes:
    name = block[:100].split(b"\0", 1)[0]
    # GNU uses the place of the prefix for times.
    if block[257:263] == b"ustar\0" and block[345]:
        return block[345:500].split(b"\0", 1)[0] + b"/" + name
    return name


def _pax(content: bytes) -> dict[str, bytes]:
    """The lines "LENGTH KEY=VALUE" of a pax header, as far as they make sense."""
    fields: dict[str, bytes] = {}
    position = 0
    while position < len(content):
        length, space, _ = content[position : position + 20].partition(b" ")
        if not space or not length.isdigit() or int(length) < len(length) + 3:
            break
        record = content[position + len(length) + 1 : position + int(length) - 1]
        key, _, value = record.partition(b"=")
        fields[key.decode("utf-8", "backslashreplace")] = value
        position += int(length)
    return fields


_MAX_GAPS = 100  # whose bytes are kept


class Tar(Container):
    """Tar archives."""

    @override
    def members(self, file: SourceItem, report: ArchiveReport) -> Iterator[Member]:
        with opened(FileRange(file.path)) as plain:
            head = plain.head(_BLOCK_BYTES)
        # A member may have a name that looks like a codec's magic, so the header comes first.
        report.codec = "" if is_header(head) else codec_of(head)
        gaps: list[TarGap] = []
        empty = True
        with opened(FileRange(file.path), report.codec, HEADER_BUFFER_BYTES) as stream:
            for header in read_headers(SequentialReader(stream)):
                if isinstance(header, TarGap):
                    gaps.append(header)
                    continue
                empty = False
                if header.kind != FOLDER:
                    size = header.size if header.size or not header.kind else NO_BYTES
                    locator = Locator("tar", report.codec, header.offset, size)
                    yield make_member(header.name, header.kind, locator)
        if gaps and empty:
            raise Rejection("not-a-tar", f"no member can be found: {gaps[0].why}")
        if gaps:
            report.damage = Rejection("damaged-archive", _described(gaps))
            report.gaps = tuple(ByteRange(gap.offset, gap.size) for gap in gaps[:_MAX_GAPS])

    @override
    def open(self, path: bytes, locator: Locator) -> RawStream:
        return FileRange(path, locator.offset, locator.size)


def _described(gaps: list[TarGap]) -> str:
    first, more = gaps[0], len(gaps) - 1
    text = f"{first.size} bytes from byte {first.offset} on belong to no member: {first.why}"
    return f"{text}; and {more} more such ranges" if more else text
