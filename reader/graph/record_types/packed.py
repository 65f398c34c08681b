"""Token ids of several documents in sequences of one length, for language modelling."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import further_specs
from reader.graph.record_types.base import BatchParser
from reader.record_types.packed import FEATURES, PackedParser
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, TokenTransform


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPackedParser(BatchParser):
    """Parses packed sequences of N tokens.

    Input: tf.train.Examples with tokens, segments (1, 2, ... for each document, 0 where there is
    none) and positions (within the document), [N] each.
    Output: (inputs, targets, weights), the next token being the target at every position:
        inputs: {"tokens", "segments", "positions"}, each [batch, N - 1] int64, without the last.
        targets: [batch, N - 1] int64, the tokens without the first.
        weights: [batch, N - 1] float32, 1 where the target is of the same document as its input,
            0 where it is padding or the first token of another one.

    Attributes:
        like: The parser in NumPy that gives the same batches.
        transforms: Transforms of the augmentation, which change the inputs alone.
    """

    like: PackedParser
    transforms: tuple[TokenTransform, ...]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        wanted = {name: tf.io.FixedLenFeature([self.like.length], tf.int64) for name in FEATURES}
        parsed = tf.io.parse_example(serialized, wanted | further_specs(self.like.further))
        tokens, segments = parsed["tokens"], parsed["segments"]
        inputs = tokens[:, :-1]
        for number, transform in enumerate(self.transforms):
            rows = tf.RaggedTensor.from_tensor(inputs, row_splits_dtype=tf.int64)
            rows = transform(rows, keys, number, self.like.vocabulary)
            masked = tf.reshape(rows.flat_values, tf.shape(inputs))
            inputs = tf.where(segments[:, :-1] > 0, masked, inputs)
        same = (segments[:, :-1] == segments[:, 1:]) & (segments[:, 1:] > 0)
        return (
            {
                "tokens": inputs,
                "segments": segments[:, :-1],
                "positions": parsed["positions"][:, :-1],
                **self.like.further.of(parsed),
            },
            tokens[:, 1:],
            tf.cast(same, tf.float32),
        )


def packed_parser(parser: PackedParser) -> GraphPackedParser:
    """The parser of a graph that does what one in NumPy does."""
    transforms = TOKEN_AUGMENTATIONS["packed"][parser.augment]
    return GraphPackedParser(like=parser, transforms=transforms)
