"""Some records of a set of pictures, as another preprocessing would have stored them."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
import tensorflow as tf

from reader.decoders import DECODERS
from reader.record_types.image import ImageRecords
from reader.sampled import (
    SampledPayloads,
    open_again,
    read_records,
    sample_numbers,
    with_payloads,
    with_records,
)
from trainer.diagnosis.costs import Costs
from trainer.diagnosis.remedies.base import Case

_QUALITY = 90  # the default of `shardmill preprocess images`
_RECORDS = 256


def stored_as(case: Case, encoding: str, shorter: int | None) -> Costs:
    """The costs with the pictures stored in another way; a sample of them is stored so here.

    Args:
        case: Of pictures.
        encoding: "jpeg" or "png".
        shorter: Side in pixels to which the shorter one is scaled down; None keeps the size.
    """
    opened = open_again(case.job.stream)
    records = cast(ImageRecords, opened.source.records)
    sample = read_records(opened, sample_numbers(opened, _RECORDS)).numpy()
    stored = [_stored_as(serialized, records.image, encoding, shorter) for serialized in sample]
    ratio = sum(map(len, stored)) / sum(map(len, sample))
    with tf.device("/CPU:0"):
        payloads = SampledPayloads(tf.constant(stored))
    decoded = dataclasses.replace(records, decoder=DECODERS[encoding])
    source = with_records(with_payloads(opened.source, payloads), decoded)
    costs = case.with_chain(source, case.reading_cpu_seconds * ratio)
    return dataclasses.replace(costs, storage_seconds=costs.storage_seconds * ratio)


def _stored_as(serialized: bytes, feature: str, encoding: str, shorter: int | None) -> bytes:
    example = tf.train.Example.FromString(serialized)
    stored = example.features.feature[feature].bytes_list
    image = tf.io.decode_image(stored.value[0], channels=3, expand_animations=False)
    if shorter is not None and shorter < min(image.shape[:2]):
        size = np.round(np.array(image.shape[:2]) * shorter / min(image.shape[:2]))
        resized = tf.image.resize(image, size.astype(np.int32), method="area")
        image = tf.cast(tf.clip_by_value(resized + 0.5, 0, 255), tf.uint8)
    stored.value[0] = _encoded(image, encoding).numpy()
    return bytes(example.SerializeToString())


def _encoded(image: Any, encoding: str) -> Any:
    if encoding == "jpeg":
        return tf.io.encode_jpeg(image, quality=_QUALITY)
    return tf.io.encode_png(image)
