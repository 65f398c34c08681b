"""Documents as token ids: cut, padded or ragged, in batches of similar length where asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import batch_targets, further_specs, further_values, label_specs
from reader.graph.record_types.base import BatchParser
from reader.record_types.tokens import TOKENS, TokenParser
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, TokenTransform


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTokenParser(BatchParser):
    """Parses documents as token ids.

    Input: tf.train.Examples with the ids of a document each, and its label or labels.
    Output: (ids [batch, length] int64, target), or the ids alone where the set has no labels. The
    length is that of the longest record of the batch (pad="longest"), the same for all batches
    (pad="max"), or each record's own (pad="none", a tf.RaggedTensor).

    Attributes:
        like: The parser in NumPy that gives the same batches.
        transforms: Transforms of the augmentation, in order.
    """

    like: TokenParser
    transforms: tuple[TokenTransform, ...]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        wanted: dict[str, Any] = {
            TOKENS: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
            **further_specs(self.like.further),
            **label_specs(self.like.labels),
        }
        parsed = tf.io.parse_example(serialized, wanted)
        ids = parsed[TOKENS]
        for number, transform in enumerate(self.transforms):
            ids = transform(ids, keys, number, self.like.vocabulary)
        if self.like.tokens.max_tokens is not None:
            ids = ids[:, : self.like.tokens.max_tokens]
        if self.like.pad != "none":
            ids = self._padded(ids, (serialized.shape[0], *self.like.element_shape))
        further = further_values(self.like.further, parsed)
        return self.like.element(ids, further, batch_targets(self.like.labels, parsed))

    def _padded(self, ids: Any, shape: tuple[int | None, int | None]) -> Any:
        """[batch, ragged] -> [batch, length], at least 1 long: a model need not expect nothing."""
        dense = ids.to_tensor(default_value=self.like.tokens.pad_id, shape=shape)
        missing = tf.maximum(1 - tf.shape(dense)[1], 0)
        dense = tf.pad(dense, [[0, 0], [0, missing]], constant_values=self.like.tokens.pad_id)
        return tf.ensure_shape(dense, shape)


def token_parser(parser: TokenParser) -> GraphTokenParser:
    """The parser of a graph that does what one in NumPy does."""
    transforms = TOKEN_AUGMENTATIONS["tokens"][parser.augment]
    return GraphTokenParser(like=parser, transforms=transforms)
