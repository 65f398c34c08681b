"""EXIF orientation in TensorFlow operations: which way a photograph is up."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_SEARCHED = 1 << 17  # 128 KiB: an Exif segment holds at most 64 KiB and comes first or second
_APP1 = b"\xff\xe1"  # marker of the segment, before its length and its name
_TAG = 0x0112  # Exif 2.32, section 4.6.4
_ENTRY_BYTES = 12


def orientation(jpeg: Any) -> Any:
    """The orientation of a JPEG, scalar int32: 1 (upright) to 8; 1 where there is none.

    Args:
        jpeg: Scalar string.
    """
    head = tf.strings.substr(jpeg, 0, _SEARCHED)
    parts = tf.strings.split(tf.strings.join([b"\0" * 4, head]), b"Exif\0\0", maxsplit=1)
    is_segment = tf.strings.substr(parts[0], -4, 2) == _APP1
    is_tagged = (tf.shape(parts)[0] == 2) & is_segment
    return tf.cond(is_tagged, lambda: _tagged(parts[1]), lambda: tf.constant(1))


def turned_upright(image: Any, number: Any) -> Any:
    """The image with an orientation reverted.

    Args:
        image: [height, width, 3] uint8.
        number: Scalar int32; upright unless in [2, 8].
    """

    def among(*numbers: int) -> Any:
        return tf.reduce_any(tf.equal(number, list(numbers)))

    image = tf.cond(among(5, 6, 7, 8), lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    image = tf.cond(among(2, 3, 6, 7), lambda: tf.reverse(image, [1]), lambda: image)
    image = tf.cond(among(3, 4, 7, 8), lambda: tf.reverse(image, [0]), lambda: image)
    return tf.ensure_shape(image, [None, None, 3])


def _tagged(tiff: Any) -> Any:
    """The value of the tag in the first directory of a TIFF header, scalar string."""
    data = tf.cast(tf.io.decode_raw(tf.strings.join([tiff, b"\0" * 16]), tf.uint8), tf.int32)
    last = tf.shape(data)[0] - 2
    little = data[0] == ord("I")

    def short(at: Any) -> Any:
        at = tf.clip_by_value(at, 0, last)
        high, low = tf.gather(data, at), tf.gather(data, at + 1)
        return tf.where(little, low * 256 + high, high * 256 + low)

    first, second = short(4), short(6)
    offset = tf.where(little, second, first) * 65536 + tf.where(little, first, second)
    directory = tf.clip_by_value(offset, 0, _SEARCHED)
    entries = directory + 2 + _ENTRY_BYTES * tf.range(tf.minimum(short(directory), 1000))
    values = tf.where(short(entries) == _TAG, short(entries + 8), 0)
    number = tf.reduce_max(tf.concat([values, [0]], axis=0))
    return tf.where((number >= 1) & (number <= 8), number, 1)
