"""The records of a WARC file one by one, continuing after damage (ISO 28500:2017, WARC 1.1).

FastWARC reads faster, but skips what it cannot read silently: nothing may vanish here.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from typing_extensions import override

from beam_jobs.corpus.codecs import GZIP_WINDOW
from beam_jobs.corpus.record import Rejection
from beam_jobs.corpus.source_io import TOO_LARGE
from beam_jobs.corpus.streams import ByteStream, RawStream

_LINE_BYTES = 1 << 16  # 64 KiB: a longer line of a header is damage
_HEADER_BYTES = 1 << 20  # 1 MiB: a longer header is damage
_NEXT = b"\r\n\r\nWARC/"
_GAP_BYTES = 64 << 20  # 64 MiB of damage, or of a range without records, are kept
_GZIP_MAGIC = b"\x1f\x8b\x08"
_PACKED_BYTES = 1 << 12  # 4 KiB at a time: the bytes lost of a member before damage
_KEPT_MEMBER_BYTES = 16 << 20  # 16 MiB: a longer member is not searched again, nor kept
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
        if len(self._member) <= _KEPT_MEMBER_BYTES:
            self._member += waiting[: len(waiting) - len(self._waiting)]
        if inflater.eof:
            self._inflater = None
        return data

    def recover(self) -> tuple[bytes | None, bool]:
        """(compressed bytes skipped, whether a record begins after them), after damage."""
        kept = len(self._member) <= _KEPT_MEMBER_BYTES
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


class WarcRecord(NamedTuple):
    """One record.

    Attributes:
        offset: In the decompressed file.
        data: All of it.
        block: The bytes after its header.
        fields: Fields of its header, by their names in lower case.
    """

    offset: int
    data: bytes
    block: bytes
    fields: Mapping[str, str]


class WarcGap(NamedTuple):
    """Bytes that are not a record.

    Attributes:
        offset: As in WarcRecord.
        data: The bytes; None if they are too many, or cannot be read.
        why: The damage that was found.
    """

    offset: int
    data: bytes | None
    why: Rejection


def read_warc(file: ByteStream, limit: int) -> Iterator[WarcRecord | WarcGap]:
    """Every record, and every range that is not one; `limit` is the most bytes of a record."""
    reader = _RecordReader(file, limit)
    while True:
        one = reader.next()
        if one is not None:
            yield one
        elif file.damage is None:
            return
        if file.damage is not None and reader.is_drained():
            damage, members = file.damage, file.raw
            data, goes_on = None, False
            if isinstance(members, GzipMembers):
                data, goes_on = members.recover()
            offset = reader.position
            reader.position += 1  # no two have the same place
            yield WarcGap(offset, data, damage)
            if not goes_on:
                return


def parse_header(header: bytes) -> dict[str, str]:
    """The fields of a header, by their names in lower case; the first of a name counts."""
    fields: dict[str, str] = {}
    last = ""
    for line in header.decode("utf-8", "replace").splitlines()[1:]:
        name, colon, value = line.partition(":")
        if line[:1] in (" ", "\t") and last:
            fields[last] += f" {line.strip()}"
        elif colon:
            last = name.strip().lower()
            fields.setdefault(last, value.strip())
    return fields


def split_record(data: bytes) -> WarcRecord:
    """The record that some bytes are.

    Raises:
        Rejection: They are not one.
    """
    head, block = split_header(data)
    if not data.startswith(BEGINS) or len(head) == len(data):
        raise Rejection("not-a-record", "it does not begin with the header of a WARC record")
    return WarcRecord(0, data, block, parse_header(head))


def split_header(data: bytes) -> tuple[bytes, bytes]:
    """(header, what follows its blank line); all is the header if it has no end."""
    ends = [(data.find(end), len(end)) for end in (b"\r\n\r\n", b"\n\n")]
    end, width = min((one for one in ends if one[0] >= 0), default=(len(data), 0))
    return data[:end], data[end + width :]


class _RecordReader:
    """Records of a stream; `position` is in the decompressed file."""

    def __init__(self, file: ByteStream, limit: int) -> None:
        self.position = 0
        self._limit = limit
        self._file = file
        self._pushed = b""

    def is_drained(self) -> bool:
        """Whether everything before the damage was read."""
        return not self._pushed and not self._file.peek(1)

    def next(self) -> WarcRecord | WarcGap | None:
        """The next record or gap; None at the end, or at damage."""
        line = self._line()
        while line in (b"\r\n", b"\n", b"\r"):
            line = self._line()
        if not line:
            return None
        start = self.position - len(line)
        if not line.startswith(BEGINS):
            why = Rejection("damaged-record", "no record begins here")
            return self._gap(start, line, why)
        header = [line]
        while (line := self._line()) and line not in (b"\r\n", b"\n"):
            header.append(line)
            if line.startswith(BEGINS):
                self._push(header.pop())
                why = Rejection("damaged-record", "another record begins inside of its header")
                return WarcGap(start, b"".join(header), why)
            if self.position - start > _HEADER_BYTES:
                why = Rejection("damaged-record", "its header does not end")
                return self._gap(start, b"".join(header), why)
        head = b"".join(header) + line
        if not line:
            why = Rejection("truncated-record", "it ends inside of its header")
            return WarcGap(start, head, why)
        return self._with_block(start, head)

    def _with_block(self, start: int, head: bytes) -> WarcRecord | WarcGap:
        fields = parse_header(head)
        length = fields.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 19):
            why = Rejection("damaged-record", f"its length is {length[:40]!r}")
            return self._gap(start, head, why)
        size = int(length)
        if size > self._limit:
            return self._too_large(start, size)
        block = self._read(size)
        if len(block) < size:
            detail = f"it ends after {len(block)} of {size} bytes"
            return self._cut_short(start, head + block, Rejection("truncated-record", detail))
        tail = self._read(4)
        if tail.strip(b"\r\n") and not tail.lstrip(b"\r\n").startswith(BEGINS[: len(tail)]):
            why = Rejection("damaged-record", f"no record ends after its {size} bytes")
            return self._cut_short(start, head + block + tail, why)
        self._push(tail if tail.strip(b"\r\n") else b"")
        return WarcRecord(start, head + block, block, fields)

    def _cut_short(self, start: int, data: bytes, why: Rejection) -> WarcGap:
        """A record of another length than it says, up to where the next one begins."""
        at = data.find(_NEXT, len(BEGINS))
        if at >= 0:
            at += len(_NEXT) - len(BEGINS)
            self._push(data[at:])
            return WarcGap(start, data[:at], why)
        return self._gap(start, data, why)

    def _too_large(self, start: int, size: int) -> WarcGap:
        left = size
        while left and (data := self._read(min(left, _HEADER_BYTES))):
            left -= len(data)
        detail = f"the record has {size} bytes, more than {self._limit}"
        return WarcGap(start, None, Rejection(TOO_LARGE, detail))

    def _gap(self, start: int, data: bytes, why: Rejection) -> WarcGap:
        """Everything up to the next line that begins a record."""
        kept: list[bytes] | None = [data]
        size, begins = len(data), data.endswith(b"\n")
        while line := self._line():
            if begins and line.startswith(BEGINS):
                self._push(line)
                break
            size, begins = size + len(line), line.endswith(b"\n")
            if kept is not None:
                kept.append(line)
            if size > max(_GAP_BYTES, len(data)):
                kept = None
        return WarcGap(start, None if kept is None else b"".join(kept), why)

    def _line(self) -> bytes:
        if not self._pushed:
            line = self._file.readline(_LINE_BYTES)
        else:
            end = self._pushed.find(b"\n", 0, _LINE_BYTES) + 1 or _LINE_BYTES
            line, self._pushed = self._pushed[:end], self._pushed[end:]
            if not line.endswith(b"\n") and len(line) < _LINE_BYTES:
                line += self._file.readline(_LINE_BYTES)
        self.position += len(line)
        return line

    def _read(self, size: int) -> bytes:
        data, self._pushed = self._pushed[:size], self._pushed[size:]
        if len(data) < size:
            data += self._file.read(size - len(data))
        self.position += len(data)
        return data

    def _push(self, data: bytes) -> None:
        self._pushed = data + self._pushed
        self.position -= len(data)
