"""IDX files, the form of MNIST and its relatives: one file with pictures, one with labels."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import ImageOptions
from beam_jobs.sources.base import MAX_RECORD_BYTES, Item, Raw, ReadRecord, Source, read_whole_file
from beam_jobs.sources.compression import codec_of
from beam_jobs.sources.containers import find_files, split_by_folder
from beam_jobs.sources.forwards import open_forwards
from beam_jobs.sources.naming import refuse_columns
from beam_jobs.sources.ranges import Place, Ranges, open_ranges
from shard_format import InputError

_UBYTE = 0x08  # the type of every file of the family
_BETWEEN = "@"  # in a locator, between the place and the size of a picture
_PGM, _PPM = "P5", "P6"  # grey and coloured pictures without compression
_IMAGES, _LABELS = b"images", b"labels"


class _Header(NamedTuple):
    codec: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return 4 + 4 * len(self.shape)


class Idx(Source):
    """Every picture of every images file below the roots, with the label at the same place.

    For train-images-idx3-ubyte.gz the labels are in train-labels-idx1-ubyte.gz beside it (either
    may be compressed or not). A picture is given as PGM, or as PPM where a file has three channels.
    """

    def __init__(self, options: ImageOptions) -> None:
        super().__init__(options)
        refuse_columns(options, "IDX files")

    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """See Source."""
        for number, file in enumerate(find_files(roots, on_ignored), start=1):
            if file.refused:
                yield file
                continue
            try:
                header = read_header(file.path)
                if len(header.shape) == 1 and _partner(file.path, _LABELS, _IMAGES) is not None:
                    continue  # read with its pictures
                split, refused = split_by_folder(self.options, file.record_id)
                if refused:
                    yield file._replace(refused=refused)
                    continue
                yield from self._file_items(file._replace(split=split), header, number)
            except Rejection as refusal:
                yield file._replace(refused=str(refusal))
            except OSError as error:
                yield file._replace(refused=f"unreadable: {error.strerror}")

    def _file_items(self, file: Item, header: _Header, number: int) -> Iterator[Item]:
        count, height, width, channels = _picture_shape(header.shape)
        labels = b"" if self.options.no_labels else self._labels(file, count)
        size = height * width * channels
        there, damage = _bytes_behind(file, header, count * size)
        head = f"{_PGM if channels == 1 else _PPM} {width} {height} 255"
        file = file._replace(block=number if header.codec else 0)
        whole = there // size if size else 0
        for row in range(whole):
            place = Place(header.codec, header.bytes + row * size, size)
            yield file._replace(
                record_id=f"{file.record_id}/{row:09d}",
                label=str(labels[row]) if labels else None,
                size=size,
                locator=f"{place}{_BETWEEN}{head}",
            )
        if there != count * size and not damage:
            damage = f"{count} pictures of {size} bytes are declared, it has {there} bytes"
        if damage:
            left = MAX_RECORD_BYTES if header.codec else max(0, there - whole * size)
            place = Place(header.codec, header.bytes + whole * size, left)
            refused = f"damaged-file: {damage}"
            yield file._replace(size=0, refused=refused, locator=f"{place}{_BETWEEN}")

    def _labels(self, file: Item, count: int) -> bytes:
        path = _partner(file.path, _IMAGES, _LABELS)
        if path is None:
            raise InputError(
                f"pictures in IDX form must have their labels beside them, got {file.record_id} "
                "and no file of that name with 'labels' for 'images' and 'idx1' for 'idx3'. Add "
                "it, or say --no-labels."
            )
        try:
            header = read_header(path)
            with open_forwards(path, header.codec) as source:
                source.skip(header.bytes)
                labels = source.take(min(count, MAX_RECORD_BYTES) + 1)
        except Rejection as refusal:
            raise _mismatch(file, count, path, refusal.detail) from None
        if header.shape != (count,) or len(labels) != count:
            raise _mismatch(file, count, path, f"{header.shape[0]} declared, {len(labels)} there")
        return labels

    @contextmanager
    def open(self, items: Sequence[Item], scratch: Path) -> Iterator[ReadRecord]:
        """See Source."""
        located = [item for item in items if item.locator]
        wanted = ((item.path, Place.parse(item.locator.split(_BETWEEN)[0])) for item in located)
        with open_ranges(wanted, scratch) as ranges:
            yield lambda item: _read(item, ranges)


def read_header(path: bytes) -> _Header:
    """The header of an IDX file of bytes.

    Raises:
        Rejection: It is none, or damaged.
        OSError: It cannot be read.
    """
    codec = codec_of(path)
    with open_forwards(path, codec) as source:
        magic = source.take(4)
        if len(magic) < 4 or magic[:3] != bytes((0, 0, _UBYTE)) or not 1 <= magic[3] <= 4:
            raise Rejection(
                "not-an-idx", f"the file begins with {magic!r}, not as IDX of bytes does"
            )
        sizes = source.take(4 * magic[3])
        if len(sizes) < 4 * magic[3]:
            raise Rejection("damaged-file", "the file ends inside its header")
    return _Header(codec, struct.unpack(f">{magic[3]}I", sizes))


def _picture_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(count, height, width, channels); the channels come last, where there are any.

    Raises:
        Rejection: The file holds no pictures.
    """
    if len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3)):
        count, height, width, *channels = shape
        # A picture without pixels has no place in the file, and would be lost uncounted.
        if 0 < height * width <= MAX_RECORD_BYTES or not count:
            return count, height, width, (*channels, 1)[0]
    raise Rejection(
        "not-pictures",
        "pictures have the shape count, height, width and 1 or 3 channels, with 1 to "
        f"{MAX_RECORD_BYTES} pixels each, got {shape}",
    )


def _partner(path: bytes, own: bytes, other: bytes) -> bytes | None:
    """The file with the labels of these pictures, or the other way round; None if there is none."""
    folder, name = os.path.split(path)
    if own not in name:
        return None
    plain = name.replace(own, other).removesuffix(b".gz")
    numbers = (b"idx1",) if other == _LABELS else (b"idx3", b"idx4")
    for number in numbers:
        for old in (b"idx1", b"idx3", b"idx4"):
            if old in plain:
                for suffix in (b"", b".gz"):
                    found = os.path.join(folder, plain.replace(old, number) + suffix)
                    if os.path.isfile(found):
                        return found
    return None


def _bytes_behind(file: Item, header: _Header, wanted: int) -> tuple[int, str]:
    """(how many bytes there are behind the header, what damage ends them)."""
    if not header.codec:
        return max(0, file.size - header.bytes), ""
    with open_forwards(file.path, header.codec) as source:
        try:
            source.skip(header.bytes + wanted + 1)
        except Rejection as damage:
            return max(0, source.position - header.bytes), damage.detail
        return max(0, source.position - header.bytes), ""


def _mismatch(file: Item, count: int, path: bytes, found: str) -> InputError:
    return InputError(
        f"pictures and labels must be equally many, got {count} pictures in {file.record_id} and "
        f"labels in {os.path.basename(os.fsdecode(path))!r}: {found}. Fetch both files again."
    )


def _read(item: Item, ranges: Ranges) -> Raw:
    if not item.locator:
        return read_whole_file(item)
    place, _, head = item.locator.partition(_BETWEEN)
    data = ranges.read(item.path, Place.parse(place), cut=bool(item.refused))
    if item.refused:
        return Raw(data)
    return Raw(f"{head}\n".encode() + data, item.label, item.group, item.split)
