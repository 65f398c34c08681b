"""Decoded images in one long row of bytes, in memory or in a mapped file, read without a copy.

The records hold everything but the pixels, and the offset of these. Were pixels part
of the records (encoding "raw"), every one would be copied five times on its way from the file to
the crop: that took more CPU time than to decode a JPEG of 256 pixels anew, and a window of records
took ten times the memory.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from reader.access.numpy_decoders import NUMPY_DECODERS
from reader.cache.checked_records import CheckedRecordReader
from reader.damage import DamageWarning
from reader.records.readers import RecordReader
from shard_format import DamageError, Feature, decode_example
from shard_format.example_parser import Examples
from shard_format.tfrecord import masked_crc

Pixels = npt.NDArray[np.uint8]  # [height, width, 3]
PIXELS = "pixels"  # the file
PLACE = "pixels_at"  # the feature: first byte of an image in the row
# Columns of the index of a decoded copy: first byte, number of bytes, and masked CRC-32C.
PIXEL_COLUMNS = (PLACE, "pixel_bytes", "pixel_crc")
_ALIGNMENT = 64  # bytes; TensorFlow copies what begins elsewhere


def empty_pixels(size: int) -> npt.NDArray[np.uint8]:
    """[size] uint8 that TensorFlow takes without a copy; what is in it is not defined."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size]


@dataclasses.dataclass(frozen=True)
class DecodedPixels:
    """The pixels of all images of a split.

    Attributes:
        data: [bytes] uint8, which does not change.
        path: The file that it is mapped from; None where it is in memory.
    """

    data: npt.NDArray[np.uint8]
    path: Path | None = None

    def image(self, place: int, height: int, width: int) -> Pixels:
        """The image that begins at a byte, without a copy."""
        return self.data[place : place + 3 * height * width].reshape(height, width, 3)


def decoded(serialized: bytes, image: Feature, where: object) -> tuple[dict[str, Any], Pixels]:
    """The features of a record, and the pixels of its image.

    Args:
        serialized: The record.
        image: The feature with the image.
        where: The set, or the file, for messages.

    Raises:
        DamageError: The image cannot be decoded.
    """
    values: dict[str, Any] = dict(decode_example(serialized))
    (stored,) = values[image.name]
    try:
        pixels = NUMPY_DECODERS[image.encoding](stored, values)
    except ValueError as error:
        raise DamageError(
            f"Cannot decode the image of record {values.get('id')} of {where}: '{error}'. Read "
            "without cache_stage to see whether it is used."
        ) from error
    return values, pixels


def pixels_crc(pixels: Any) -> int:
    """The masked CRC-32C of the bytes of an array, or of anything else with a buffer."""
    return masked_crc(memoryview(pixels).tobytes())


class CheckedPixels(RecordReader):
    """Reads the records of a decoded copy, whose pixels are compared with their checksums once.

    The pixels are read through a memory map, past all checks. So Python checks those of each image
    when a process reads it for the first time, and decodes an image that is damaged from the set
    again.

    Args:
        record_reader: Reader of the records of the copy.
        copy: Directory of the copy.
        index: Index of the copy, with `PIXEL_COLUMNS`.
        original: Reads the records of the set.
        image: The feature of the set that has the image.
    """

    def __init__(
        self,
        record_reader: RecordReader,
        copy: Path,
        index: pa.Table,
        original: CheckedRecordReader,
        image: Feature,
    ) -> None:
        self._record_reader, self._original, self._image = record_reader, original, image
        self._path = copy / PIXELS
        self._begins, self._sizes, self._crcs = (
            np.asarray(index[name].to_numpy(), np.int64) for name in PIXEL_COLUMNS
        )
        self._seen = np.zeros(index.num_rows, np.bool_)
        with self._path.open("rb") as file:
            self._mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @override
    def read(self, numbers: npt.NDArray[np.int64]) -> Examples:
        """The records, once all their images are what was decoded.

        Raises:
            DamageError: One is not, and cannot be decoded again.
        """
        for number in numbers[~self._seen[numbers]].tolist():
            begin, size = int(self._begins[number]), int(self._sizes[number])
            if pixels_crc(self._mapped[begin : begin + size]) != self._crcs[number]:
                self._restore(number, begin)
            self._seen[number] = True
        return self._record_reader.read(numbers)

    @override
    def place_of(self, number: int) -> str:
        return self._record_reader.place_of(number)

    def _restore(self, number: int, begin: int) -> None:
        examples = self._original.read(np.array([number]))
        _, pixels = decoded(bytes(examples[0]), self._image, self._path)
        if pixels_crc(pixels) != self._crcs[number]:
            raise DamageError(
                f"Pixels of record number {number} do not match their checksum in {self._path} at "
                f"byte {begin}, and decoded again they are others. Run 'shardmill cache --clear'."
            )
        descriptor = os.open(self._path, os.O_WRONLY)
        try:
            os.pwrite(descriptor, pixels.tobytes(), begin)
        finally:
            os.close(descriptor)
        warnings.warn(
            f"Pixels in {self._path} at byte {begin} did not match their checksum; the image was "
            "decoded again.",
            DamageWarning,
            stacklevel=1,
        )
