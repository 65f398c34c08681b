"""Pillow's operations on images of whole numbers, in TensorFlow operations.

The AutoAugment family of transforms is defined by them. Every function maps [height, width, 3]
uint8 to the same, and gives what Pillow gives: the look-up tables to the bit, what interpolates
within one.
"""

from __future__ import annotations

from typing import Any

from reader.lazy_tensorflow import tf
from reader.transforms.colors import luminance

_LEVELS = 256


def autocontrast(image: Any) -> Any:
    """`PIL.ImageOps.autocontrast`: of each channel, the least value becomes 0, the greatest 255."""
    low = tf.cast(tf.reduce_min(image, axis=(0, 1)), tf.float64)
    high = tf.cast(tf.reduce_max(image, axis=(0, 1)), tf.float64)
    # In float64 as Pillow's Python: a table of 256 costs nothing, and is the same to the bit.
    scale = 255.0 / tf.maximum(high - low, 1.0)
    levels = tf.range(_LEVELS, dtype=tf.float64)[:, None]
    # Towards 0, as int() does there.
    stretched = tf.cast(tf.clip_by_value(levels * scale - low * scale, 0.0, 255.0), tf.int32)
    kept = tf.range(_LEVELS)[:, None]
    return _looked_up(image, tf.where(high > low, stretched, kept))


def equalize(image: Any) -> Any:
    """`PIL.ImageOps.equalize`: of each channel, all values become about equally frequent."""
    counts = tf.math.bincount(
        tf.reshape(_cells(image), [-1]), minlength=3 * _LEVELS, maxlength=3 * _LEVELS
    )
    counts = tf.transpose(tf.reshape(counts, [3, _LEVELS]))
    levels = tf.range(_LEVELS)[:, None]
    greatest = tf.reduce_max(tf.where(counts > 0, levels, 0), axis=0)
    of_greatest = tf.gather(counts, greatest)
    of_greatest = tf.linalg.diag_part(of_greatest)
    step = (tf.reduce_sum(counts, axis=0) - of_greatest) // 255
    before = tf.cumsum(counts, axis=0, exclusive=True) + step // 2
    spread = tf.minimum(before // tf.maximum(step, 1), 255)
    return _looked_up(image, tf.where(step > 0, spread, levels))


def posterize(image: Any, bits: int) -> Any:
    """`PIL.ImageOps.posterize`: only the first bits of every value, from 1 to 8 of them."""
    return tf.bitwise.bitwise_and(image, tf.constant((0xFF << (8 - bits)) & 0xFF, tf.uint8))


def solarize(image: Any, threshold: int) -> Any:
    """`PIL.ImageOps.solarize`: values from the threshold on are inverted; 256 inverts none."""
    if threshold >= _LEVELS:
        return image
    return tf.where(image >= tf.constant(threshold, tf.uint8), 255 - image, image)


def color(image: Any, factor: Any) -> Any:
    """`PIL.ImageEnhance.Color`: 0 is grey, 1 the image, more is more colourful."""
    values = tf.cast(image, tf.float32)
    return _blended(_grey(values), values, factor)


def contrast(image: Any, factor: Any) -> Any:
    """`PIL.ImageEnhance.Contrast`: 0 is evenly grey, 1 the image."""
    values = tf.cast(image, tf.float32)
    return _blended(tf.floor(tf.reduce_mean(_grey(values)) + 0.5), values, factor)


def brightness(image: Any, factor: Any) -> Any:
    """`PIL.ImageEnhance.Brightness`: 0 is black, 1 the image."""
    return _blended(0.0, tf.cast(image, tf.float32), factor)


def sharpness(image: Any, factor: Any) -> Any:
    """`PIL.ImageEnhance.Sharpness`: 0 is smoothed, 1 the image, more is sharper."""
    values = tf.cast(image, tf.float32)
    kernel = tf.constant([1.0, 1, 1, 1, 5, 1, 1, 1, 1], shape=[3, 3, 1, 1]) / 13
    # A border of one pixel is not smoothed; of an image narrower than 3 nothing is.
    if min(image.shape[:2]) < 3:
        return image
    smooth = tf.nn.depthwise_conv2d(
        values[None], tf.tile(kernel, [1, 1, 3, 1]), [1, 1, 1, 1], "VALID"
    )
    inner = _blended(tf.floor(smooth[0] + 0.5), values[1:-1, 1:-1], factor)
    middle = tf.concat([image[1:-1, :1], inner, image[1:-1, -1:]], axis=1)
    return tf.concat([image[:1], middle, image[-1:]], axis=0)


def _blended(degenerate: Any, values: Any, factor: Any) -> Any:
    """`PIL.Image.blend`: towards the second by a factor, also beyond it; cut, not rounded."""
    blended = degenerate + factor * (values - degenerate)
    return tf.cast(tf.clip_by_value(blended, 0.0, 255.0), tf.uint8)


def _grey(values: Any) -> Any:
    """[height, width, 1] float32 whole numbers: Pillow's mode "L"."""
    return tf.floor(luminance(values) + 0.5)


def _cells(image: Any) -> Any:
    """[height, width, 3] int32: the values, those of each channel in a range of their own."""
    return tf.cast(image, tf.int32) + tf.constant([0, _LEVELS, 2 * _LEVELS])


def _looked_up(image: Any, table: Any) -> Any:
    """The image with every value replaced by that of a table [256, 3] int32 in [0, 255]."""
    flat = tf.reshape(tf.transpose(tf.cast(table, tf.uint8)), [-1])
    return tf.gather(flat, _cells(image))
