"""Token ids of several documents in sequences of one length, for language modelling."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import further_specs, further_values
from reader.graph.record_types.base import BatchParser
from reader.record_types.packed import PackedParser
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, TokenTransform


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPackedParser(BatchParser):
    """Parses packed sequences of N tokens.

    Input: tf.train.Examples with tokens, segments (1, 2, ... for each document, 0 where there is
    none) and positions (within the document), [N] each.
    Output: as described in `PackedParser`.

    Attributes:
        like: The parser in NumPy that gives the same batches.
        transforms: Transforms of the augmentation, which change the inputs alone.
    """

    like: PackedParser
    transforms: tuple[TokenTransform, ...]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        names, length = self.like.names, self.like.length
        wanted = {name: tf.io.FixedLenFeature([length], tf.int64) for name in names}
        parsed = tf.io.parse_example(serialized, wanted | further_specs(self.like.further))
        sequences = {name: parsed[name][:, :-1] for name in names}
        for number, transform in enumerate(self.transforms):
            inputs = sequences["tokens"]
            rows = tf.RaggedTensor.from_tensor(inputs, row_splits_dtype=tf.int64)
            rows = transform(rows, keys, number, self.like.vocabulary)
            masked = tf.reshape(rows.flat_values, tf.shape(inputs))
            sequences["tokens"] = tf.where(sequences["segments"] > 0, masked, inputs)
        weights = None
        if self.like.has_segments:
            segments = parsed["segments"]
            same = (segments[:, :-1] == segments[:, 1:]) & (segments[:, 1:] > 0)
            weights = tf.cast(same, tf.float32)
        further = further_values(self.like.further, parsed)
        return self.like.element(sequences, further, parsed["tokens"][:, 1:], weights)


def packed_parser(parser: PackedParser) -> GraphPackedParser:
    """The parser of a graph that does what one in NumPy does."""
    transforms = TOKEN_AUGMENTATIONS["packed"][parser.augment]
    return GraphPackedParser(like=parser, transforms=transforms)
