"""The limit: a hand-tuned tf.data chain for the same shards and the same work.

It is the fastest found: files interleaved in any order, records shuffled in a buffer while they are
bytes, parsed in batches, cropped while they are decoded, flipped before they are resized, with raw
operations where those of tf.image only add checks; every map is parallel and non-deterministic. The
crop has the same distribution, because its mean area determines the cost of decoding.

`plain` is the chain of tutorials: tf.image throughout, one parse per record, and deterministic
order. `usual` is that of training scripts for ImageNet: TensorFlow's own random crop and its fast
decoder.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.subjects.clock import AREA, BATCH, RATIO, SIDE, measure_reading

_FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}
_BUFFER, _USUAL_BUFFER = 4096, 2048
_PARSED = 256  # records that one call parses


def crop_of(size: Any) -> Any:
    """[4] int32: top, left, height, width of a random crop, of [2] int32 height and width.

    The reader's distribution, in as few operations per image as we found.
    """
    random = tf.random.uniform([4])
    size = tf.cast(size, tf.float32)
    height, width = tf.unstack(size)
    ratio = tf.exp((2 * random[0] - 1) * math.log(RATIO[1]))
    most = tf.minimum(height * height * ratio, width * width / ratio)
    total = height * width
    high = tf.minimum(AREA[1] * total, most)
    low = tf.minimum(AREA[0] * total, most)
    area = low + random[1] * (high - low)
    crop = tf.sqrt(tf.stack([area / ratio, area * ratio]))
    crop = tf.clip_by_value(tf.round(crop), 1.0, size)
    corner = tf.floor(random[2:] * (size - crop + 1))
    return tf.cast(tf.concat([tf.minimum(corner, size - crop), crop], axis=0), tf.int32)


def cut(image: Any, box: Any) -> Any:
    """The part of a decoded image inside a box."""
    top, left, height, width = tf.unstack(box)
    return image[top : top + height, left : left + width]


def finish(image: Any) -> Any:
    """[height, width, 3] uint8 -> [SIDE, SIDE, 3] uint8, mirrored in half of the cases."""
    image = tf.cond(tf.random.uniform([]) < 0.5, lambda: tf.reverse(image, axis=[1]), lambda: image)
    # From uint8, the same numbers take twice the time.
    image = tf.cast(image, tf.float32)
    resized = tf.raw_ops.ResizeBilinear(
        images=image[None], size=[SIDE, SIDE], half_pixel_centers=True
    )
    return _to_uint8(resized[0])


def plain_finish(image: Any) -> Any:
    """The same with the functions of tf.image."""
    return _to_uint8(tf.image.resize(tf.image.random_flip_left_right(image), [SIDE, SIDE]))


def decode_crop(jpeg: Any, finish: Any = finish) -> Any:
    """Scalar string -> [SIDE, SIDE, 3] uint8; only the crop is decoded."""
    box = crop_of(tf.io.extract_jpeg_shape(jpeg)[:2])
    return finish(tf.image.decode_and_crop_jpeg(jpeg, box, channels=3))


def _to_uint8(image: Any) -> Any:
    image = tf.cast(image + 0.5, tf.uint8)
    image.set_shape([SIDE, SIDE, 3])
    return image


def plain_chain(files: list[str]) -> tf.data.Dataset:
    """The chain of tutorials."""

    def decode(serialized: Any) -> tuple[Any, Any]:
        example = tf.io.parse_single_example(serialized, _FEATURES)
        return decode_crop(example["image"], plain_finish), example["label"]

    return (
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(len(files))
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(_BUFFER)
        .repeat()
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def usual_chain(files: list[str]) -> tf.data.Dataset:
    """The chain of training scripts."""

    def decode(serialized: Any) -> tuple[Any, Any]:
        example = tf.io.parse_single_example(serialized, _FEATURES)
        jpeg = example["image"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(jpeg),
            bounding_boxes=tf.zeros([0, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=RATIO,
            area_range=AREA,
            use_image_if_no_bounding_boxes=True,
        )
        box = tf.concat([begin[:2], size[:2]], axis=0)
        image = tf.image.decode_and_crop_jpeg(jpeg, box, channels=3, dct_method="INTEGER_FAST")
        image = _to_uint8(tf.image.resize(image, [SIDE, SIDE]))
        return tf.image.random_flip_left_right(image), example["label"]

    return (
        tf.data.Dataset.from_tensor_slices(files)
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(_USUAL_BUFFER)
        .repeat()
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def tuned_chain(files: list[str]) -> tf.data.Dataset:
    """The hand-tuned chain."""
    options = tf.data.Options()
    options.deterministic = False
    return (
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(len(files))
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(_BUFFER)
        .repeat()
        .batch(_PARSED)
        .map(
            lambda serialized: tf.io.parse_example(serialized, _FEATURES),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .unbatch()
        .map(
            lambda example: (decode_crop(example["image"]), example["label"]),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def main() -> None:
    """Arguments: DIR CHAIN LIMITS; CHAIN is tuned, plain or usual."""
    directory, chain, *limits = sys.argv[1:]
    files = [str(path) for path in sorted(Path(directory).glob("*-train.tfrecord-*"))]

    chains = {"tuned": tuned_chain, "plain": plain_chain, "usual": usual_chain}
    measure_reading(lambda: chains[chain](files), limits)


if __name__ == "__main__":
    main()
