"""The size that an image file declares, in TensorFlow operations: read before any pixel is decoded.

A file of half a megabyte can declare 400 million pixels. Decoders allocate what is declared, and
TensorFlow's own limits are far above what a server has.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def begins(data: Any, magic: bytes) -> Any:
    """Whether a scalar string begins with these bytes."""
    return tf.equal(tf.strings.substr(data, 0, len(magic)), magic)


def number_at(data: Any, position: Any, count: int, *, big_endian: bool = False) -> Any:
    """An unsigned number of `count` bytes, scalar int64; bytes behind the end are 0."""
    position = tf.minimum(tf.cast(position, tf.int64), length_of(data))
    part = tf.strings.substr(data, position, count)
    part = tf.strings.substr(tf.strings.join([part, tf.constant(b"\0" * count)]), 0, count)
    values = tf.cast(tf.io.decode_raw(part, tf.uint8), tf.int64)
    powers = [256**power for power in range(count)]
    return tf.reduce_sum(values * tf.constant(powers[::-1] if big_endian else powers, tf.int64))


def length_of(data: Any) -> Any:
    """Number of bytes of a scalar string, int64."""
    return tf.cast(tf.strings.length(data), tf.int64)


def require(condition: Any, message: Any, data: Any) -> Any:
    """The data, once the condition is checked; else the operation fails with the message."""
    with tf.control_dependencies([tf.debugging.Assert(condition, [message])]):
        return tf.identity(data)


def check_pixels(data: Any, max_pixels: int) -> Any:
    """The bytes of an image file, once it is checked to declare no more pixels than allowed."""
    width, height = tf.unstack(declared_size(data))
    message = tf.strings.format(
        f"the file declares {{}} x {{}} pixels, more than --max-pixels {max_pixels} of the set",
        (width, height),
    )
    # Sides are below 2^32, so the product of float64 cannot wrap around.
    pixels = tf.cast(width, tf.float64) * tf.cast(height, tf.float64)
    return require(pixels <= max_pixels, message, data)


def declared_size(data: Any) -> Any:
    """[width, height] int64 that the header of a JPEG, PNG, WebP, GIF or BMP declares.

    Fails with a message if it is another format, or a JPEG whose header cannot be read.
    """
    return tf.case(
        [
            (begins(data, b"\xff\xd8"), lambda: _jpeg_size(data)),
            (begins(data, b"\x89PNG"), lambda: _pair(data, 16, 4, big_endian=True)),
            (begins(data, b"RIFF"), lambda: _webp_size(data)),
            (begins(data, b"GIF8"), lambda: _pair(data, 6, 2)),
            (begins(data, b"BM"), lambda: _bmp_size(data)),
        ],
        default=lambda: require(
            False,
            tf.where(
                length_of(data) > 0,
                "the content is none of JPEG, PNG, WebP, GIF and BMP",
                "the file has no bytes",
            ),
            tf.constant([0, 0], tf.int64),
        ),
    )


def _pair(data: Any, position: Any, count: int, *, big_endian: bool = False) -> Any:
    first = number_at(data, position, count, big_endian=big_endian)
    return tf.stack([first, number_at(data, position + count, count, big_endian=big_endian)])


def _bmp_size(data: Any) -> Any:
    # Two's complement; rows of a negative height are stored from the top.
    width, height = tf.unstack(_pair(data, 18, 4))
    return tf.stack([width, tf.where(height >= 1 << 31, (1 << 32) - height, height)])


def _webp_size(data: Any) -> Any:
    """Size of the canvas. Decoders check that a still image has the size of its canvas."""
    kind = tf.strings.substr(data, tf.minimum(length_of(data), 12), 4)
    lossy = _pair(data, 26, 2) % (1 << 14)  # above are bits for upscaling
    bits = number_at(data, 21, 4)
    lossless = tf.stack([bits % (1 << 14) + 1, bits // (1 << 14) % (1 << 14) + 1])
    extended = _pair(data, 24, 3) + 1
    return tf.where(kind == b"VP8X", extended, tf.where(kind == b"VP8L", lossless, lossy))


def _jpeg_size(data: Any) -> Any:
    height, width, _ = tf.unstack(tf.image.extract_jpeg_shape(data, tf.int64))
    return tf.stack([width, height])
