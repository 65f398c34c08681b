"""Labels and further features of records in a graph: how they are parsed, and the targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from reader.record_types.features import TargetLabels
from reader.record_types.further import FurtherFeatures
from shard_format import Feature, UsageError

_STORED = {"bytes_list": tf.string, "int64_list": tf.int64, "float_list": tf.float32}


def label_specs(labels: TargetLabels) -> dict[str, Any]:
    """How tf.io.parse_example reads labels."""
    return {feature.name: label_spec(feature) for feature in labels.features.values()}


def further_specs(further: FurtherFeatures) -> dict[str, Any]:
    """How tf.io.parse_example reads further features.

    Raises:
        UsageError: Values differ in shape, which records that are parsed one by one cannot.
    """
    specs: dict[str, Any] = {}
    for feature in further.features:
        for part in feature.stored:
            dtype = _STORED[part.storage]
            if -1 not in feature.shape:
                shape = part.dims if dtype == tf.string else part.shape
                specs[part.name] = tf.io.FixedLenFeature(shape, dtype)
            elif further.is_padded(feature) and not feature.is_tensor_bytes:
                specs[part.name] = tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
            else:
                raise UsageError(
                    f"The shape of feature {feature.name!r} varies by record, so that only batches "
                    "made without TensorFlow hold it. Leave it out, leave out service, mixtures "
                    "and transforms in TensorFlow, or pass list_size with a list."
                )
    return specs


def further_values(further: FurtherFeatures, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The further features of a batch, from all that was parsed, as `FurtherFeatures.values`."""
    return further.nested({one.name: _value(further, one, parsed) for one in further.features})


def _value(further: FurtherFeatures, feature: Feature, parsed: Mapping[str, Any]) -> Any:
    value = parsed[feature.stored[-1].name]
    dtype = tf.as_dtype(feature.type.dtype) if feature.type.is_number else tf.string
    if feature.is_tensor_bytes:
        return tf.reshape(tf.io.decode_raw(value, dtype), [-1, *feature.shape])
    if not further.is_padded(feature):
        return tf.cast(value, dtype) if feature.type.is_number else value
    size, row = further.list_size, feature.shape[1:]
    counts = value.row_lengths() // math.prod(row)
    flat = tf.reshape(value.flat_values, [-1, *row])
    rows = tf.RaggedTensor.from_row_lengths(flat, counts)
    fill = (
        tf.constant("")
        if dtype == tf.string
        else tf.cast(-(feature.kind == "class_label"), flat.dtype)
    )
    filled = rows.to_tensor(fill, shape=[None, size, *row])
    return filled if dtype == tf.string else tf.cast(filled, dtype), tf.minimum(counts, size)


def batch_targets(labels: TargetLabels, parsed: Mapping[str, Any]) -> Any:
    """The targets of a batch, from all that was parsed; None where there are no labels."""
    return labels.convert(batch_target, labels.of(parsed)) if labels else None


def label_spec(label: Feature) -> Any:
    """How tf.io.parse_example reads it: [n] int64, or [n, ragged] where there are any number."""
    if label.shape:
        return tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([], tf.int64)


def batch_target(label: Feature, parsed: Any) -> Any:
    """What `label_spec` parsed -> [batch] int64, or [batch, num_classes] float32 of 0 and 1."""
    if not label.shape:
        return parsed
    # One at every label; a label that is repeated is still one.
    zeros = tf.zeros([parsed.nrows(), len(label.class_names)], tf.float32)
    where = tf.stack([parsed.value_rowids(), parsed.flat_values], axis=1)
    ones = tf.ones_like(parsed.flat_values, tf.float32)
    return tf.tensor_scatter_nd_update(zeros, where, ones)


def record_target(label: Feature, parsed: Any) -> Any:
    """What `label_spec` parsed of one record -> int64, or [num_classes] float32 of 0 and 1."""
    if not label.shape:
        return parsed
    # One at every label; a label that is repeated is still one.
    zeros = tf.zeros([len(label.class_names)], tf.float32)
    ones = tf.ones_like(parsed, tf.float32)
    return tf.tensor_scatter_nd_update(zeros, parsed[:, None], ones)
