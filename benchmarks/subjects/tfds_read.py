"""The peer: TFDS's own reader, on the shard set itself, which it opens as one of its own.

"default" decodes as TFDS does unless told otherwise: the whole picture, from which the crop is then
cut. "skip" takes the bytes (`SkipDecoding`) and decodes the crop alone, by the code of the
hand-tuned chain. Neither caches.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds

from benchmarks.subjects.hand_tuned_read import crop_of, cut, decode_crop, finish
from benchmarks.subjects.reading_clock import BATCH, measure

# What the buffer holds is of some 20 kB undecoded, of 260 kB decoded; the customary sizes for each.
_BUFFERS = {"skip": 4096, "default": 1000}


def main() -> None:
    """Arguments: DIR DECODING SECONDS [MOST]; DECODING is default or skip."""
    directory, decoding, seconds, *most = sys.argv[1:]

    def crop_encoded(example: dict[str, Any]) -> Any:
        return decode_crop(example["image"], crop_of), example["label"]

    def crop_decoded(example: dict[str, Any]) -> Any:
        image = example["image"]
        return finish(cut(image, crop_of(tf.shape(image)[:2]))), example["label"]

    def open_stream() -> tf.data.Dataset:
        skip = decoding == "skip"
        dataset = tfds.builder_from_directory(directory).as_dataset(
            split="train",
            shuffle_files=True,
            decoders={"image": tfds.decode.SkipDecoding()} if skip else None,
            read_config=tfds.ReadConfig(try_autocache=False),
        )
        return (
            dataset.shuffle(_BUFFERS[decoding])
            .repeat()
            .map(crop_encoded if skip else crop_decoded, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE)
        )

    measure(open_stream, float(seconds), int(*most or [0]))


if __name__ == "__main__":
    main()
