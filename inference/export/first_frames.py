"""The first frame of an animated GIF or WebP, in TensorFlow operations, as preprocessing takes it.

TensorFlow's decoders decode all frames of an animation before all but one are dropped, and version
2.21 has once ended with "free(): corrupted unsorted chunks" in a process that decoded an animated
WebP without transparency. So the file is cut to a still one first.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from inference.export.image_headers import length_of, number_at, require

# Blocks of at most 255 bytes up to the end of the first frame: 32 MiB.
_MAX_BLOCKS = 1 << 17
_MAX_CHUNKS = 1000
_GIF_HEADER_BYTES = 13
_EXTENSION, _IMAGE = 0x21, 0x2C
# What the walk through a GIF is in: between blocks, data of an extension, data of the first frame.
_BETWEEN, _IN_EXTENSION, _IN_IMAGE, _COMPLETE = range(4)

_CHUNKS = 12  # offset of the first chunk of a WebP, behind "RIFF", the size and "WEBP"
_ANIMATION, _ALPHA = 0x02, 0x10  # flags of the chunk VP8X
_FRAME_BYTES = 24  # header of a frame (chunk ANMF), before its own chunks


def first_gif_frame(data: Any) -> Any:
    """The bytes of a GIF up to the end of its first frame, as a file of its own."""

    def is_open(_: Any, state: Any, __: Any) -> Any:
        return tf.less(state, _COMPLETE)

    def step(position: Any, state: Any, image: Any) -> Any:
        first = number_at(data, position, 1)
        is_image, is_extension = first == _IMAGE, first == _EXTENSION
        between = tf.where(is_image, 10 + _table_bytes(data, position + 9) + 1, 2)
        after = tf.where(is_image, _IN_IMAGE, tf.where(is_extension, _IN_EXTENSION, _COMPLETE))
        ended = tf.where(state == _IN_IMAGE, _COMPLETE, _BETWEEN)
        is_between = state == _BETWEEN
        return (
            position + tf.where(is_between, between, 1 + first),
            tf.where(is_between, after, tf.where(first == 0, ended, state)),
            tf.where(is_between & is_image, position, image),
        )

    begin = _GIF_HEADER_BYTES + _table_bytes(data, 10)
    end, _, image = tf.while_loop(
        is_open,
        step,
        (begin, tf.constant(_BETWEEN), tf.constant(0, tf.int64)),
        maximum_iterations=_MAX_BLOCKS,
        parallel_iterations=1,
    )
    data = require(
        (image > 0) & (end <= length_of(data)),
        "the file ends before the first frame of a GIF does",
        data,
    )
    fits = (number_at(data, image + 5, 2) <= number_at(data, 6, 2)) & (
        number_at(data, image + 7, 2) <= number_at(data, 8, 2)
    )
    data = require(fits, "the first frame of a GIF is larger than the image", data)
    return tf.strings.join([tf.strings.substr(data, tf.constant(0, tf.int64), end), b";"])


def _table_bytes(data: Any, position: Any) -> Any:
    """Size of a color table, by the byte that describes it."""
    flags = number_at(data, position, 1)
    size = 3 * tf.bitwise.left_shift(tf.constant(2, tf.int64), flags % 8)
    return tf.where(flags >= 0x80, size, 0)


def first_webp_frame(data: Any) -> Any:
    """The pixels of a WebP, [height, width, 4] uint8; of an animation, those of the first frame."""
    is_extended = tf.strings.substr(data, tf.minimum(length_of(data), _CHUNKS), 4) == b"VP8X"
    is_animated = is_extended & (number_at(data, 20, 1) // _ANIMATION % 2 == 1)
    return tf.cond(is_animated, lambda: _animated(data), lambda: _still(data))


def _still(data: Any) -> Any:
    # 0 channels: as many as there are. The operation refuses to add one that is missing.
    image = tf.io.decode_webp(data, channels=0)[0]
    return tf.cond(tf.shape(image)[2] == 4, lambda: image, lambda: _opaque(image))


def _opaque(image: Any) -> Any:
    alpha = tf.fill(tf.shape(image[..., :1]), tf.constant(255, tf.uint8))
    return tf.concat([image[..., :3], alpha], axis=2)


def _animated(data: Any) -> Any:
    """The first frame on its canvas, which is transparent, or black if the file has no alpha."""

    def is_other(position: Any) -> Any:
        name = tf.strings.substr(data, position, 4)
        return (name != b"ANMF") & (position < length_of(data))

    (position,) = tf.while_loop(
        is_other,
        lambda position: (tf.minimum(_next_chunk(data, position), length_of(data)),),
        (tf.constant(_CHUNKS, tf.int64),),
        maximum_iterations=_MAX_CHUNKS,
        parallel_iterations=1,
    )
    is_frame = tf.strings.substr(data, position, 4) == b"ANMF"
    is_whole = position + _FRAME_BYTES <= length_of(data)
    message = f"no frame in the first {_MAX_CHUNKS} chunks of an animated WebP"
    data = require(is_frame & is_whole, message, data)
    left, top, columns, rows = (number_at(data, position + 8 + 3 * n, 3) for n in range(4))
    right = number_at(data, 24, 3) - 2 * left - columns
    below = number_at(data, 27, 3) - 2 * top - rows
    message = "the first frame of an animated WebP is outside of the image"
    data = require((right >= 0) & (below >= 0), message, data)
    around = tf.stack([[2 * top, below], [2 * left, right], tf.zeros([2], tf.int64)])
    image = tf.pad(_still(_frame_file(data, position)), around)
    has_alpha = number_at(data, 20, 1) // _ALPHA % 2 == 1
    return tf.cond(has_alpha, lambda: image, lambda: _opaque(image))


def _next_chunk(data: Any, position: Any) -> Any:
    size = number_at(data, position + 4, 4)
    return position + 8 + size + size % 2


def _frame_file(data: Any, position: Any) -> Any:
    """A WebP of one image, made of a frame.

    What is behind the chunks of the frame is not read. It fills the file up to the length that is
    written in its first bytes.
    """
    extended = b"VP8X" + bytes([10, 0, 0, 0, _ALPHA, 0, 0, 0])
    parts = [
        tf.strings.substr(data, 0, _CHUNKS),
        tf.constant(extended),
        tf.strings.substr(data, position + 14, 6),  # width - 1 and height - 1
        tf.strings.substr(data, position + _FRAME_BYTES, length_of(data)),
        data,
    ]
    return tf.strings.substr(tf.strings.join(parts), 0, tf.strings.length(data))
