"""Labels and further features of a record: found in the schema, parsed, and handed out."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from reader.record_types.base import OpenSplit
from shard_format import Feature, Schema, ShardSetError, UsageError
from shard_format.options import check_choice

_DTYPES = {"text": tf.string, "int64": tf.int64, "float32": tf.float32}


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
            f"{split.index['label'].null_count} records have no label in {split.where}. Build the "
            "set again from a source with labels."
        )
    return label


def targets_of(label: Feature | None) -> str:
    """One of `reader.stream.TARGETS`."""
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
    # One at every label; a label that is repeated is still one.
    zeros = tf.zeros([parsed.nrows(), len(label.class_names)], tf.float32)
    where = tf.stack([parsed.value_rowids(), parsed.flat_values], axis=1)
    ones = tf.ones_like(parsed.flat_values, tf.float32)
    return tf.tensor_scatter_nd_update(zeros, where, ones)


@dataclasses.dataclass(frozen=True)
class FurtherFeatures:
    """The features that `features` of `reader.load` names.

    Attributes:
        features: Of kind text, int64 or float32, of fixed shape, in the order asked for.
    """

    features: tuple[Feature, ...]

    @property
    def specs(self) -> dict[str, Any]:
        """How tf.io.parse_example reads them: each [n, *shape]."""
        return {
            feature.name: tf.io.FixedLenFeature(feature.shape, _DTYPES[feature.kind])
            for feature in self.features
        }

    def of(self, parsed: dict[str, Any]) -> dict[str, Any]:
        """These features among all that were parsed."""
        return {feature.name: parsed[feature.name] for feature in self.features}

    def inputs(self, name: str, value: Any, parsed: dict[str, Any]) -> Any:
        """The inputs of a batch or an element: a dictionary where there are further features.

        Args:
            name: Of the input without them.
            value: That input.
            parsed: Has these features.
        """
        return {name: value, **self.of(parsed)} if self.features else value


def find_further(split: OpenSplit, names: tuple[str, ...], own: tuple[str, ...]) -> FurtherFeatures:
    """The features of these names.

    Args:
        split: The split.
        names: As given to `reader.load`.
        own: Names of the features that every batch has anyway.

    Raises:
        UsageError: There is no such feature, or it has no fixed shape.
    """
    label = find_feature(split.schema, "class_label")
    taken = {*own, *([] if label is None else [label.name])}
    candidates = {
        feature.name: feature
        for feature in split.schema.features
        if feature.name not in taken and feature.kind in _DTYPES
    }
    for name in names:
        if name in taken:
            raise UsageError(
                f"features names {name!r}, which every batch of {split.root} has. Leave it out."
            )
        check_choice("feature", name, candidates, split.root)
        if min(candidates[name].shape, default=0) < 0:
            raise UsageError(
                f"The length of feature {name!r} varies by record in {split.root}, so batches "
                "cannot hold it. Leave it out; reader.random_access gives it."
            )
    return FurtherFeatures(tuple(candidates[name] for name in dict.fromkeys(names)))
