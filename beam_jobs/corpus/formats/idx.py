"""IDX files, the format of MNIST and its relatives: one file with images, one with labels.

For train-images-idx3-ubyte.gz the labels are in train-labels-idx1-ubyte.gz in the same folder
(either may be compressed or not). An image is given as PGM, or as PPM where a file has three
channels. Format: http://yann.lecun.com/exdb/mnist, "The IDX file format".
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import override

from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.formats.base import (
    FilePart,
    Format,
    Found,
    FoundRecord,
    FoundRejection,
    Split,
)
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.source_io import is_file
from beam_jobs.corpus.streams import ByteStream, FileRange, SequentialReader, opened
from shard_format import InputError

_UBYTE = 0x08  # the type of every file of the family
_PGM, _PPM = "P5", "P6"  # grey and coloured images without compression
_IMAGES, _LABELS = b"images", b"labels"
_MAX_IMAGE_BYTES = 512 << 20  # 512 MiB; a larger size is damage
_SPLIT_BYTES = 32 << 20  # 32 MiB, about a unit


class _Images(NamedTuple):
    """The images of a file: their number, and the bytes and PNM header of each."""

    number: int
    size: int
    pnm: bytes


class Idx(Format):
    """Images of an IDX file; the context of a record is its label."""

    @override
    def find(self, part: FilePart) -> Iterator[Found]:
        with part.open() as file:
            reader = SequentialReader(file)
            images = _images(_read_header(reader))
            labels = self._labels(part, images.number)
            end = images.number if part.locator.end < 0 else min(part.locator.end, images.number)
            if part.locator.start:
                reader.skip(part.locator.start * images.size)
            for number in range(part.locator.start, end):
                why = "the file ends early"
                try:
                    pixels = reader.take(images.size)
                except Rejection as damage:
                    pixels, why = b"", damage.detail
                if len(pixels) < images.size:
                    detail = f"{images.number} images are declared, image {number} is cut: {why}"
                    rejection = Rejection("damaged-file", detail, data=pixels)
                    yield FoundRejection(self.place(number), rejection)
                    return
                label = str(labels[number]) if labels else None
                yield FoundRecord(self.place(number), images.pnm + pixels, label)
            if part.locator.end < 0 and (rest := file.read(self.limit)):
                detail = f"{len(rest)} bytes follow {images.number} images of {images.size} bytes"
                rejection = Rejection("damaged-file", detail, data=rest)
                yield FoundRejection(self.place(images.number), rejection)

    @override
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        annotations = part.annotations
        if found.context is not None:
            annotations = annotations._replace(label=found.context)
        return RawRecord("", found.data, self.extractor.from_bytes(found.data), annotations)

    @override
    def splits(self, file: ByteStream, size: int) -> list[Split]:
        try:
            images = _images(_read_header(SequentialReader(file)))
        except Rejection:
            return super().splits(file, size)  # reading says what is wrong
        step = max(1, _SPLIT_BYTES // max(1, images.size))
        starts = list(range(0, max(1, images.number), step))
        return [
            Split(start, end, 0, step * images.size)
            for start, end in zip(starts, [*starts[1:], -1], strict=True)
        ]

    def _labels(self, part: FilePart, count: int) -> bytes:
        """[count] class numbers; b"" without labels.

        Raises:
            InputError: The file with labels is missing, or does not fit.
        """
        if self.options.no_labels or self.options.labels is not None:
            return b""
        path = partner(part.path, _IMAGES, _LABELS)
        if path is None:
            raise InputError(
                f"{part.file_id} has no file of labels in its folder: one with 'labels' for "
                "'images' and 'idx1' for 'idx3' in its name. Add it, or use --no-labels."
            )
        try:
            with _opened(path) as file:
                reader = SequentialReader(file)
                shape = _read_header(reader)
                labels = reader.take(count + 1)
        except Rejection as rejection:
            raise _mismatch(part, count, path, rejection.detail) from None
        if shape != (count,) or len(labels) != count:
            mismatch = f"{shape[0]} are declared, it has {len(labels)}"
            raise _mismatch(part, count, path, mismatch)
        return labels


def is_labels(path: bytes) -> bool:
    """Whether a file has the labels of another, with which it is read."""
    return _LABELS in os.path.basename(path) and partner(path, _LABELS, _IMAGES) is not None


def is_header(head: bytes) -> bool:
    """Whether a file that is not compressed begins as IDX files of bytes do."""
    return len(head) >= 8 and head[:3] == bytes((0, 0, _UBYTE)) and 1 <= head[3] <= 4


def _opened(path: bytes) -> ByteStream:
    with FileRange(path) as raw:
        codec = codec_of(raw.look(16))
    return opened(FileRange(path), codec)


def _read_header(reader: SequentialReader) -> tuple[int, ...]:
    """The shape of an IDX file of bytes.

    Raises:
        Rejection: There is none, or it is damaged.
    """
    magic = reader.take(4)
    if len(magic) < 4 or magic[:3] != bytes((0, 0, _UBYTE)) or not 1 <= magic[3] <= 4:
        raise Rejection("not-an-idx", f"the file begins with {magic!r}, not as IDX of bytes does")
    sizes = reader.take(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise Rejection("damaged-file", "the file ends inside its header")
    return struct.unpack(f">{magic[3]}I", sizes)


def _images(shape: tuple[int, ...]) -> _Images:
    """The images of a file; channels come last, where there are any.

    Raises:
        Rejection: The file does not hold images.
    """
    if len(shape) == 3 or (len(shape) == 4 and shape[3] in (1, 3)):
        count, height, width, *more = shape
        channels = (*more, 1)[0]
        # An image without pixels has no bytes in the file, and would vanish uncounted.
        if 0 < height * width <= _MAX_IMAGE_BYTES or not count:
            pnm = f"{_PGM if channels == 1 else _PPM} {width} {height} 255\n".encode()
            return _Images(count, height * width * channels, pnm)
    raise Rejection(
        "not-pictures",
        "images have the shape count, height, width and 1 or 3 channels, with 1 to "
        f"{_MAX_IMAGE_BYTES} pixels each, got {shape}",
    )


def partner(path: bytes, own: bytes, other: bytes) -> bytes | None:
    """The file of labels for a file of images, or the other way round; None if there is none."""
    folder, name = os.path.split(path)
    if own not in name:
        return None
    plain = name.replace(own, other).removesuffix(b".gz")
    numbers = (b"idx1",) if other == _LABELS else (b"idx3", b"idx4")
    old_numbers, suffixes = (b"idx1", b"idx3", b"idx4"), (b"", b".gz")
    for number, old, suffix in itertools.product(numbers, old_numbers, suffixes):
        path_of_other = os.path.join(folder, plain.replace(old, number) + suffix)
        if old in plain and is_file(path_of_other):
            return path_of_other
    return None


def _mismatch(part: FilePart, count: int, path: bytes, found: str) -> InputError:
    return InputError(
        f"{part.file_id} has {count} images, but the labels in "
        f"{os.path.basename(os.fsdecode(path))!r} do not match: {found}. Download both files again."
    )
