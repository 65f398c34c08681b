"""Zip archives, in WebDataset form or with class folders inside."""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.sources.base import Item, ReadRecord, check_size
from beam_jobs.sources.contents import Entry, entry
from beam_jobs.sources.packed import Listed, PackedFiles
from beam_jobs.sources.ranges import read_range
from beam_jobs.sources.zip_directory import (
    ENCRYPTED,
    FOLDER,
    LOCAL_BYTES,
    data_offset,
    read_directory,
)

_STORED, _DEFLATED = 0, 8
_AS_IT_IS = -1  # no method: the packed bytes, of what cannot be unpacked
# What zipfile raises for damage and for methods that it does not know.
_UNPACKING = (zipfile.BadZipFile, lzma.LZMAError, RuntimeError, EOFError, ValueError)
_RAW_DEFLATE = -15  # window bits: no header around the stream


class Zip(PackedFiles):
    """Every file below the roots must be a zip archive; what is none is listed as refused."""

    def entries(self, archive: Listed) -> Iterator[Entry]:
        """See PackedFiles."""
        descriptor = os.open(archive.file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for found in read_directory(descriptor):
                if found.kind == FOLDER:
                    continue
                place = ZipPlace(found.offset, found.packed, found.size, found.crc, found.method)
                if found.kind != ENCRYPTED:
                    yield entry(found.name, str(place), found.size, found.kind)
                    continue
                one = entry(found.name, str(place._replace(method=_AS_IT_IS)), found.packed, "")
                yield one._replace(refused="encrypted: a password is needed to read it")
        except Rejection as damage:
            if damage.reason != "damaged-archive":
                raise
            archive.damage = damage.detail, _WHOLE_FILE
        finally:
            os.close(descriptor)

    def open(self, items: Sequence[Item], scratch: Path) -> AbstractContextManager[ReadRecord]:
        """See Source."""
        return nullcontext(self.read_with(_fetch))


_WHOLE_FILE = ""


class ZipPlace(NamedTuple):
    """Where a member lies, and what its bytes must be."""

    offset: int  # of its local header
    packed: int
    size: int
    crc: int
    method: int

    def __str__(self) -> str:
        return "+".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> ZipPlace:
        """The inverse of str()."""
        return cls(*map(int, text.split("+")))


def _fetch(path: bytes, text: str) -> bytes:
    """The bytes of a member.

    Raises:
        Rejection: It is too large or damaged.
        OSError: The archive cannot be read.
    """
    place = ZipPlace.parse(text)
    check_size(place.size)
    if place.method not in (_STORED, _DEFLATED, _AS_IT_IS):
        return _by_zipfile(path, place)
    # Deflating makes nothing longer by more than 5 bytes per 16 KiB.
    check_size(place.packed - place.packed // 1024)
    header = read_range(path, place.offset, LOCAL_BYTES)
    packed = read_range(path, data_offset(header, place.offset), place.packed)
    if place.method == _AS_IT_IS:
        return packed
    data = _inflated(packed, place.size) if place.method == _DEFLATED else packed
    if len(data) != place.size or zlib.crc32(data) != place.crc:
        raise Rejection(
            "damaged-record",
            f"{place.size} bytes with CRC-32 {place.crc:08x} are declared, got {len(data)} with "
            f"{zlib.crc32(data):08x}",
            data=data,
        )
    return data


def _inflated(packed: bytes, size: int) -> bytes:
    """What is packed, but never more than declared: a small stream may hold terabytes."""
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    try:
        # One byte more tells a stream that goes on; zlib takes 0 for "without bound".
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise Rejection("damaged-record", f"it cannot be inflated: {error}", data=packed) from None
    if len(data) > size:
        raise Rejection(
            "damaged-record", f"{size} bytes are declared and more are packed", data=packed
        )
    return data


def _by_zipfile(path: bytes, place: ZipPlace) -> bytes:
    """A member packed by a rare method (bzip2, LZMA)."""
    try:
        with zipfile.ZipFile(os.fsdecode(path)) as archive:
            for info in archive.infolist():
                if info.header_offset == place.offset:
                    with archive.open(info) as file:
                        return file.read(place.size)
    except _UNPACKING as error:
        raise Rejection("damaged-record", f"method {place.method} gives {error}") from None
    raise Rejection("damaged-record", f"no member begins at byte {place.offset}")
