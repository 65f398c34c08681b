"""Decoded images in one long row of bytes, in memory or in a mapped file, read without a copy.

The records hold everything but the pixels, and the offset of these. Were pixels part
of the records (encoding "raw"), every one would be copied five times on its way from the file to
the crop: that took more CPU time than to decode a JPEG of 256 pixels anew, and a window of records
took ten times the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from reader.records.decoders import Crop, Decoder
from reader.records.index_columns import mapped_file

PLACE = "pixels_at"  # the feature: first byte of an image in the row
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
