"""The peer: TFDS's own reader, on the shard set itself, which it opens as one of its own.

"tutorial" has TFDS decode the complete image, as it does by default, and then crops,
mirrors and resizes by the functions of tf.image. "tuned" does the same by the bare operations of
the hand-tuned chain. "skip" takes the bytes (`SkipDecoding`) and decodes the crop alone, by the
code of the hand-tuned chain. None caches.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from benchmarks.subjects.hand_tuned_read import crop_of, cut, decode_crop, finish, plain_finish
from benchmarks.subjects.reading_clock import BATCH, measure

# What the buffer holds is of some 20 kB undecoded, of 260 kB decoded; the customary sizes for each.
_BUFFERS = {"skip": 4096, "tuned": 1000, "tutorial": 1000}


def main() -> None:
    """Arguments: DIR DECODING SECONDS [MOST]; DECODING is tutorial, tuned or skip."""
    directory, decoding, seconds, *most = sys.argv[1:]

    def crop_encoded(example: dict[str, Any]) -> Any:
        return decode_crop(example["image"], crop_of), example["label"]

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

    measure(open_stream, float(seconds), int(*most or [0]))


if __name__ == "__main__":
    main()
