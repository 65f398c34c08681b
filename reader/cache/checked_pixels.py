"""Records of a decoded copy on disk, whose pixels are compared with their checksums once.

The pixels are read through a memory map, past all checks. So Python checks those of each image when
a process reads it for the first time, and decodes an image that is damaged from the set again.
"""

from __future__ import annotations

import mmap
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from reader.cache.checked_records import CheckedRecordReader
from reader.cache.decoding import PIXEL_COLUMNS, PIXELS, decoded, pixels_crc
from reader.damage import DamageWarning
from reader.records.readers import RecordReader
from shard_format import DamageError, Feature


class CheckedPixels:
    """Reads the records of a decoded copy.

    Args:
        record_reader: Reads them.
        copy: The directory of the copy.
        index: Of the copy, with `PIXEL_COLUMNS`.
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

    def read(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read`."""
        # The numbers come back: TensorFlow drops a stateless call whose result nobody uses.
        checked = tf.numpy_function(self._check, [numbers], tf.int64, stateful=False)
        checked.set_shape([None])
        return self._record_reader.read(checked)

    def read_skipping(self, numbers: Any) -> Any:
        """See `reader.records.readers.RecordReader.read_skipping`; of a copy all are whole."""
        return self.read(numbers), numbers

    def _check(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The same numbers, once all these images are what was decoded.

        Raises:
            DamageError: One is not, and cannot be decoded again.
        """
        for number in numbers[~self._seen[numbers]].tolist():
            begin, size = int(self._begins[number]), int(self._sizes[number])
            if pixels_crc(self._mapped[begin : begin + size]) != self._crcs[number]:
                self._mend(number, begin)
            self._seen[number] = True
        return numbers

    def _mend(self, number: int, begin: int) -> None:
        (serialized,) = self._original.read_now(np.array([number]))
        _, pixels = decoded(serialized, self._image, str(self._path))
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
