"""Labels and further features of records in a graph: how they are parsed, and the targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from reader.record_types.features import FurtherFeatures, TargetLabels
from shard_format import Feature

_DTYPES = {
    "text": tf.string,
    "int64": tf.int64,
    "float32": tf.float32,
    "class_label": tf.int64,
}


def label_specs(labels: TargetLabels) -> dict[str, Any]:
    """How tf.io.parse_example reads labels."""
    return {feature.name: label_spec(feature) for feature in labels.features.values()}


def further_specs(further: FurtherFeatures) -> dict[str, Any]:
    """How tf.io.parse_example reads further features: each [n, *shape]."""
    return {
        feature.name: tf.io.FixedLenFeature(feature.shape, _DTYPES[feature.kind])
        for feature in further.features
    }


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
