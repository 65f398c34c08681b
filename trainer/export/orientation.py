"""EXIF orientation in TensorFlow operations: which way a photograph is up."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_SEARCHED = 1 << 17  # 128 KiB: an Exif segment holds at most 64 KiB and comes first or second
_START_OF_SCAN, _APP1 = 0xDA, 0xE1
_EXIF = tuple(b"Exif\0\0")
_TAG = 0x0112  # Exif 2.32, section 4.6.4
_ENTRY_BYTES = 12


def orientation(jpeg: Any) -> Any:
    """The orientation of a JPEG, scalar int32: 1 (upright) to 8; 1 where there is none.

    Args:
        jpeg: Scalar string.
    """
    data = tf.cast(tf.io.decode_raw(tf.strings.substr(jpeg, 0, _SEARCHED), tf.uint8), tf.int32)
    data = tf.concat([data, tf.zeros([16], tf.int32)], axis=0)
    begin = _exif_begin(data)
    return tf.cond(begin < 0, lambda: tf.constant(1), lambda: _tagged(data, begin))


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


def _exif_begin(data: Any) -> Any:
    """Where the TIFF header of the first Exif segment begins, or -1."""
    end = tf.shape(data)[0] - 16

    def is_open(at: Any, begin: Any) -> Any:
        segment = (at < end) & (data[tf.minimum(at, end)] == 0xFF)
        return segment & (data[tf.minimum(at, end) + 1] != _START_OF_SCAN) & (begin < 0)

    def next_segment(at: Any, _: Any) -> Any:
        is_exif = (data[at + 1] == _APP1) & tf.reduce_all(data[at + 4 : at + 10] == _EXIF)
        length = data[at + 2] * 256 + data[at + 3]
        step = tf.where(data[at + 1] == 0xFF, 1, 2 + length)  # 0xFF may be repeated
        return at + step, tf.where(is_exif, at + 10, -1)

    _, begin = tf.while_loop(is_open, next_segment, (tf.constant(2), tf.constant(-1)))
    return begin


def _tagged(data: Any, begin: Any) -> Any:
    """The value of the tag in the first directory of a TIFF header."""
    last = tf.shape(data)[0] - 4
    little = data[begin] == ord("I")

    def short(at: Any) -> Any:
        at = tf.clip_by_value(at, 0, last)
        high, low = tf.gather(data, at), tf.gather(data, at + 1)
        return tf.where(little, low * 256 + high, high * 256 + low)

    at = tf.clip_by_value(begin + 4, 0, last)
    first, second = short(at), short(at + 2)
    offset = tf.where(little, second, first) * 65536 + tf.where(little, first, second)
    directory = begin + tf.clip_by_value(offset, 0, _SEARCHED)
    entries = directory + 2 + _ENTRY_BYTES * tf.range(tf.minimum(short(directory), 1000))
    values = tf.where(short(entries) == _TAG, short(entries + 8), 0)
    number = tf.reduce_max(tf.concat([values, [0]], axis=0))
    return tf.where((number >= 1) & (number <= 8), number, 1)
