"""From stored bytes to pixels: one decoder for each encoding that a schema may name.

A decoder gets the box to cut out before it decodes. For JPEG that saves most of the work: only the
blocks of the crop are turned into pixels. The others decode all and then cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from reader.cache.pixels import PLACE, DecodedPixels
from reader.graph.columns import mapped_file

# [2] int32, height and width -> [4] int32: top, left, height and width of what is wanted.
Crop = Callable[[Any], Any]

# Extra columns decoded left and right of a crop, and cut off. Where colour is stored at half the
# width, libjpeg computes a column from two stored ones, but from one at the edge of what it
# decodes: half of all crops would differ in their first or last column from a cut image.
# One column would do, but below 3 stored columns libjpeg smooths nothing at all: 4 keep any box
# that is narrower than its image at 5 or more.
_MARGIN = 4


@dataclasses.dataclass(frozen=True)
class Decoder:
    """How images of one encoding are decoded.

    Attributes:
        decode: ({"image": scalar string, and the sides}, crop or None) -> [height, width, 3] uint8,
            in TensorFlow operations; without a crop the whole image.
        sides: Features (int64) that the decoder needs in addition to the bytes.
        plan: ([n, 4] int32 boxes, [n, 2] int32 sizes of images) -> features [n, ...] that
            `decode` takes in place of a crop: many at once cost as much as one. None where there is
            nothing to be computed.
    """

    decode: Callable[[Mapping[str, Any], Crop | None], Any]
    sides: tuple[str, ...] = ()
    plan: Callable[[Any, Any], dict[str, Any]] | None = None


def decode_jpeg(features: Mapping[str, Any], crop: Crop | None) -> Any:
    """A JPEG; most of the image outside the crop is not decoded.

    The pixels are those of the whole image, cut: a crop does not depend on when it is taken.
    """
    jpeg = features["image"]
    plan = features
    if "decoded" not in features:
        if crop is None:
            return tf.io.decode_jpeg(jpeg, channels=3)
        size = tf.io.extract_jpeg_shape(jpeg)[:2]
        plan = plan_jpeg(crop(size), size)
    image = tf.image.decode_and_crop_jpeg(jpeg, plan["decoded"], channels=3)
    image = tf.slice(image, plan["begin"], plan["extent"])
    image.set_shape([None, None, 3])  # unknown after a slice of computed extent
    return image


def plan_jpeg(box: Any, size: Any) -> dict[str, Any]:
    """The box to decode, [..., 4] int32, and the place of a crop in it, [..., 3] int32 each.

    Args:
        box: [..., 4] int32: top, left, height and width.
        size: [..., 2] int32: height and width of the image.
    """
    top, left, height, width = tf.unstack(box, axis=-1)
    first = tf.maximum(left - _MARGIN, 0)
    last = tf.minimum(left + width + _MARGIN, size[..., 1])
    zero = tf.zeros_like(left)
    return {
        "decoded": tf.stack([top, first, height, last - first], axis=-1),
        "begin": tf.stack([zero, left - first, zero], axis=-1),
        "extent": tf.stack([height, width, zero + 3], axis=-1),
    }


def decode_png(features: Mapping[str, Any], crop: Crop | None) -> Any:
    """A PNG."""
    return _cut(tf.io.decode_png(features["image"], channels=3), crop)


def decode_webp(features: Mapping[str, Any], crop: Crop | None) -> Any:
    """A WebP; of its frames, of which ours have one, the first."""
    return _cut(tf.io.decode_webp(features["image"], channels=3)[0], crop)


def decode_raw(features: Mapping[str, Any], crop: Crop | None) -> Any:
    """The pixels themselves."""
    shape = tf.stack([features["height"], features["width"], 3])
    return _cut(tf.reshape(tf.io.decode_raw(features["image"], tf.uint8), shape), crop)


DECODERS = {
    "jpeg": Decoder(decode_jpeg, plan=plan_jpeg),
    "png": Decoder(decode_png),
    "webp": Decoder(decode_webp),
    "raw": Decoder(decode_raw, ("height", "width")),
}


def pixels_decoder(pixels: DecodedPixels) -> Decoder:
    """A decoder that cuts images out of decoded ones; of a file it reads the rows that it needs."""
    if pixels.path is None:
        # tf.constant would copy it.
        tensor = tf.experimental.dlpack.from_dlpack(pixels.data.__dlpack__())
    path, size = pixels.path, len(pixels.data)

    def decode(features: Mapping[str, Any], crop: Crop | None) -> Any:
        sides = tf.cast(tf.stack([features["height"], features["width"]]), tf.int32)
        box = tf.concat([[0, 0], sides], axis=0) if crop is None else crop(sides)
        top, left, height, width = tf.unstack(box)
        row_bytes = 3 * features["width"]
        begin = features[PLACE] + tf.cast(top, tf.int64) * row_bytes
        end = begin + tf.cast(height, tf.int64) * row_bytes
        data = tensor if path is None else mapped_file(path, tf.uint8, size)
        rows = tf.reshape(data[begin:end], [height, sides[1], 3])
        return rows[:, left : left + width]

    return Decoder(decode, ("height", "width", PLACE))


def _cut(image: Any, crop: Crop | None) -> Any:
    if crop is None:
        return image
    top, left, height, width = tf.unstack(crop(tf.shape(image)[:2]))
    return image[top : top + height, left : left + width]
