"""The limit: a tf.data chain written by hand for these very shards, doing the same work.

Files are interleaved, records shuffled in a buffer, parsed, cropped while decoding, resized,
flipped, batched, prefetched; every map is parallel. The crop is drawn from the same distribution,
because its mean area is what decoding costs; `tf` draws it with TensorFlow's own operation instead,
whose crops are about 12 % smaller.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

from benchmarks.subjects.shardmill_read import BATCH, SIDE, measure
from reader.transforms.random_resized_crop import crop_box

_FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def _same_box(jpeg: tf.Tensor) -> tf.Tensor:
    return crop_box(tf.io.extract_jpeg_shape(jpeg)[:2], tf.random.uniform([4]))


def _tf_box(jpeg: tf.Tensor) -> tf.Tensor:
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(jpeg),
        tf.zeros([0, 0, 4]),
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], axis=0)


def main() -> None:
    """Arguments: DIR CROP SECONDS; CROP is same or tf."""
    directory, crop, seconds = sys.argv[1:]
    box = {"same": _same_box, "tf": _tf_box}[crop]
    files = [str(path) for path in sorted(Path(directory).glob("*-train.tfrecord-*"))]

    def decode(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        example = tf.io.parse_single_example(serialized, _FEATURES)
        jpeg = example["image"]
        image = tf.image.decode_and_crop_jpeg(jpeg, box(jpeg), channels=3)
        image = tf.image.random_flip_left_right(image)
        image = tf.image.resize(image, [SIDE, SIDE])
        image = tf.cast(image + 0.5, tf.uint8)
        image.set_shape([SIDE, SIDE, 3])
        return image, example["label"]

    dataset = (
        tf.data.Dataset.from_tensor_slices(files)
        .shuffle(len(files))
        .interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        .shuffle(4096)
        .repeat()
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
    measure(dataset, float(seconds))


if __name__ == "__main__":
    main()
