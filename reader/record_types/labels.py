"""The class or classes of a record: found in the schema, parsed, and made a target."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from reader.record_types.base import OpenSplit
from shard_format import Feature, Schema, ShardSetError


def find_feature(schema: Schema, kind: str) -> Feature | None:
    """The first feature of a kind; None if there is none."""
    return next((feature for feature in schema.features if feature.kind == kind), None)


def find_label(split: OpenSplit) -> Feature | None:
    """The feature with the class or classes of a record; None where the set has no labels.

    Raises:
        ShardSetError: A record that must have one label has none.
    """
    label = find_feature(split.schema, "class_label")
    if label is not None and not label.shape and split.index["label"].null_count:
        raise ShardSetError(
            f"every record must have a label, got {split.index['label'].null_count} without one "
            f"in {split.where}. Build the set again from a source with labels."
        )
    return label


def targets_of(label: Feature | None) -> str:
    """One of `reader.info.TARGETS`."""
    if label is None:
        return "none"
    return "labels" if label.shape else "label"


def label_spec(label: Feature) -> Any:
    """How tf.io.parse_example reads it: [n] int64, or [n, ragged] where there are any number."""
    if label.shape:
        return tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([], tf.int64)


def batch_target(label: Feature, parsed: Any) -> Any:
    """What `label_spec` parsed -> [batch] int64, or [batch, num_classes] float32 of 0 and 1."""
    if not label.shape:
        return parsed
    # One at every label; a label that stands twice is still one.
    zeros = tf.zeros([parsed.nrows(), len(label.class_names)], tf.float32)
    where = tf.stack([parsed.value_rowids(), parsed.flat_values], axis=1)
    ones = tf.ones_like(parsed.flat_values, tf.float32)
    return tf.tensor_scatter_nd_update(zeros, where, ones)
