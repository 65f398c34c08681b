"""Decoded images in one long row of bytes, in memory or in a mapped file, read without a copy.

The records hold everything but the pixels, and the offset of these. Were pixels part
of the records (encoding "raw"), every one would be copied five times on its way from the file to
the crop: that took more CPU time than to decode a JPEG of 256 pixels anew, and a window of records
took ten times the memory.
"""

from __future__ import annotations

import mmap
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from typing_extensions import override

from reader.cache.checked_records import CheckedRecordReader
from reader.damage import DamageWarning
from reader.records.decoders import DECODERS, Crop, Decoder
from reader.records.index_columns import mapped_file
from reader.records.readers import RecordReader
from shard_format import DamageError, Feature, decode_example
from shard_format.tfrecord import masked_crc

Pixels = npt.NDArray[np.uint8]  # [height, width, 3]
PIXELS = "pixels"  # the file
PLACE = "pixels_at"  # the feature: first byte of an image in the row
# Columns of the index of a decoded copy: first byte, number of bytes, and masked CRC-32C.
PIXEL_COLUMNS = (PLACE, "pixel_bytes", "pixel_crc")
_ALIGNMENT = 64  # bytes; TensorFlow copies what begins elsewhere


def empty_pixels(size: int) -> npt.NDArray[np.uint8]:
    """[size] uint8 that `pixels_in_memory` takes without a copy; what is in it is not defined."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size]


def pixels_in_memory(pixels: npt.NDArray[np.uint8]) -> Decoder:
    """A decoder that cuts images out of an array, which must not change any more."""
    # tf.constant would copy it.
    tensor = tf.experimental.dlpack.from_dlpack(pixels.__dlpack__())
    return _decoder(lambda: tensor)


def pixels_in_file(path: Path) -> Decoder:
    """A decoder that cuts images out of a file; of which it reads the rows that it needs."""
    size = path.stat().st_size
    return _decoder(lambda: mapped_file(path, tf.uint8, size))


def _decoder(pixels: Callable[[], Any]) -> Decoder:
    def decode(features: Mapping[str, Any], crop: Crop | None) -> Any:
        sides = tf.cast(tf.stack([features["height"], features["width"]]), tf.int32)
        box = tf.concat([[0, 0], sides], axis=0) if crop is None else crop(sides)
        top, left, height, width = tf.unstack(box)
        row_bytes = 3 * features["width"]
        begin = features[PLACE] + tf.cast(top, tf.int64) * row_bytes
        end = begin + tf.cast(height, tf.int64) * row_bytes
        rows = tf.reshape(pixels()[begin:end], [height, sides[1], 3])
        return rows[:, left : left + width]

    return Decoder(decode, ("height", "width", PLACE))


def decoded(serialized: bytes, image: Feature, where: object) -> tuple[dict[str, Any], Pixels]:
    """The features of a record, and the pixels of its image.

    Args:
        serialized: The record.
        image: The feature with the image.
        where: The set, or the file, for messages.

    Raises:
        DamageError: TensorFlow cannot decode the image.
    """
    values: dict[str, Any] = dict(decode_example(serialized))
    (stored,) = values[image.name]
    try:
        with tf.device("/CPU:0"):
            pixels = DECODERS[image.encoding].decode({"image": stored}, None).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise DamageError(
            f"TensorFlow cannot decode the image of record {values.get('id')} of {where}: "
            f"'{error.message}'. Read without cache_stage to see whether it is used."
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
    def read(self, numbers: Any) -> Any:
        # The numbers come back: TensorFlow drops a stateless call whose result nobody uses.
        checked = tf.numpy_function(self._check, [numbers], tf.int64, stateful=False)
        checked.set_shape([None])
        return self._record_reader.read(checked)

    def _check(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The same numbers, once all these images are what was decoded.

        Raises:
            DamageError: One is not, and cannot be decoded again.
        """
        for number in numbers[~self._seen[numbers]].tolist():
            begin, size = int(self._begins[number]), int(self._sizes[number])
            if pixels_crc(self._mapped[begin : begin + size]) != self._crcs[number]:
                self._restore(number, begin)
            self._seen[number] = True
        return numbers

    def _restore(self, number: int, begin: int) -> None:
        (serialized,) = self._original.read_now(np.array([number]))
        _, pixels = decoded(serialized, self._image, self._path)
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
