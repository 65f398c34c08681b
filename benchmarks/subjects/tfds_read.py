"""The baseline: the reader of TFDS, on the shard set itself.

"tutorial" has TFDS decode the complete image, as it does by default, and then crops,
mirrors and resizes with tf.image. "tuned" does the same with the raw operations of the hand-tuned
chain. "skip" takes the bytes (`SkipDecoding`) and decodes only the crop, with the code of the
hand-tuned chain. None caches.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.hand_tuned_read import crop_of, cut, decode_crop, finish, plain_finish

# An element of the buffer has about 20 kB undecoded, 260 kB decoded; the usual sizes for each.
_BUFFERS = {"skip": 4096, "tuned": 1000, "tutorial": 1000}


def main() -> None:
    """Arguments: DIR DECODING LIMITS; DECODING is tutorial, tuned or skip."""
    directory, decoding, *limits = sys.argv[1:]

    def crop_encoded(example: dict[str, Any]) -> Any:
        return decode_crop(example["image"]), example["label"]

    def crop_decoded(example: dict[str, Any]) -> Any:
        image = example["image"]
        return finish(cut(image, crop_of(tf.shape(image)[:2]))), example["label"]

    def crop_plainly(example: dict[str, Any]) -> Any:
        image = example["image"]
        image = tf.image.crop_to_bounding_box(image, *tf.unstack(crop_of(tf.shape(image)[:2])))
        return plain_finish(image), example["label"]

    ways = {"tutorial": crop_plainly, "tuned": crop_decoded, "skip": crop_encoded}

    def open_stream() -> tf.data.Dataset:
        dataset = tfds.builder_from_directory(directory).as_dataset(
            split="train",
            shuffle_files=True,
            decoders={"image": tfds.decode.SkipDecoding()} if decoding == "skip" else None,
            read_config=tfds.ReadConfig(try_autocache=False),
        )
        return (
            dataset.shuffle(_BUFFERS[decoding])
            .repeat()
            .map(ways[decoding], num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE)
        )

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
