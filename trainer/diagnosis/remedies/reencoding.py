"""Some records of a set of images, as another preprocessing would have stored them."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
import tensorflow as tf

from reader.profiling.sampled_pipeline import (
    open_again,
    read_records,
    sample_numbers,
    with_images,
    with_parser,
)
from reader.record_types.image import ImageParser
from reader.records.decoders import DECODERS
from trainer.diagnosis.costs import Costs
from trainer.diagnosis.remedies.base import Case

_QUALITY = 90  # the default of `shardmill preprocess images`
_RECORDS = 256


def stored_as(case: Case, encoding: str, shorter: int | None) -> Costs:
    """The costs with the images stored in another way; a sample of them is stored so here.

    Args:
        case: Case of a set of images.
        encoding: "jpeg" or "png".
        shorter: Side in pixels to which the shorter one is scaled down; None keeps the size.
    """
    opened = open_again(case.job.stream)
    records = cast(ImageParser, opened.pipeline.parser)
    sample = read_records(opened, sample_numbers(opened, _RECORDS)).numpy()
    stored = [_stored_as(serialized, records.image, encoding, shorter) for serialized in sample]
    ratio = sum(len(serialized) for serialized, _ in stored) / sum(map(len, sample))
    decoded = dataclasses.replace(records, decoder=DECODERS[encoding])
    pipeline = with_images(opened.pipeline, *map(list, zip(*stored, strict=True)))
    pipeline = with_parser(pipeline, decoded)
    costs = case.with_chain(pipeline, case.reading_cpu_seconds * ratio)
    return dataclasses.replace(costs, storage_seconds=costs.storage_seconds * ratio)


def _stored_as(
    serialized: bytes, feature: str, encoding: str, shorter: int | None
) -> tuple[bytes, tuple[int, int]]:
    """A record with its image stored in another way, and height and width of that."""
    example = tf.train.Example.FromString(serialized)
    stored = example.features.feature[feature].bytes_list
    image = tf.io.decode_image(stored.value[0], channels=3, expand_animations=False)
    if shorter is not None and shorter < min(image.shape[:2]):
        size = np.round(np.array(image.shape[:2]) * shorter / min(image.shape[:2]))
        resized = tf.image.resize(image, size.astype(np.int32), method="area")
        image = tf.cast(tf.clip_by_value(resized + 0.5, 0, 255), tf.uint8)
    stored.value[0] = _encoded(image, encoding).numpy()
    height, width, _ = image.shape
    for name, side in (("height", height), ("width", width)):
        if name in example.features.feature:
            example.features.feature[name].int64_list.value[:] = [side]
    return bytes(example.SerializeToString()), (height, width)


def _encoded(image: Any, encoding: str) -> Any:
    if encoding == "jpeg":
        return tf.io.encode_jpeg(image, quality=_QUALITY)
    return tf.io.encode_png(image)
