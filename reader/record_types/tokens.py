"""Documents as token ids: cut, padded or ragged, in batches of similar length where asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import tensorflow as tf
from typing_extensions import override

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import BatchParser, OpenSplit, Parser, TokenInfo
from reader.record_types.features import (
    FurtherFeatures,
    TargetLabels,
    find_further,
    find_labels,
)
from reader.record_types.token_lengths import RecordLengths, padding_share
from reader.records.vocabulary import SetVocabulary, find_vocabulary
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, TokenTransform
from shard_format import DamageError

TOKENS = "tokens"  # the feature, and the column of the index that counts them


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenParser(BatchParser):
    """Parses documents as token ids.

    Input: tf.train.Examples with the ids of a document each, and its label or labels.
    Output: (ids [batch, length] int64, target), or the ids alone where the set has no labels. The
    length is that of the longest record of the batch (pad="longest"), the same for all batches
    (pad="max"), or each record's own (pad="none", a tf.RaggedTensor).

    Attributes:
        labels: Features with the targets; none where there are no labels.
        further: Features that are handed out with the ids.
        tokens: Description of the ids.
        vocabulary: SetVocabulary of the set.
        pad: One of `reader.options.PADS`.
        length: Length of every batch where pad is "max".
        transforms: Transforms of the augmentation, in order.
    """

    labels: TargetLabels
    further: FurtherFeatures
    tokens: TokenInfo
    vocabulary: SetVocabulary
    pad: str
    length: int
    transforms: tuple[TokenTransform, ...]

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return (self.length if self.pad == "max" else None,)

    @property
    @override
    def element_dtype(self) -> str:
        return "int64"

    @property
    @override
    def targets(self) -> str:
        return self.labels.kind

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        ragged = dataclasses.replace(self, pad="none")
        parsed = dataclasses.replace(ragged, transforms=())
        return [("parse", parsed), ("augment", ragged), ("batch", self)]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        wanted: dict[str, Any] = {
            TOKENS: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
            **self.further.specs,
            **self.labels.specs,
        }
        parsed = tf.io.parse_example(serialized, wanted)
        ids = parsed[TOKENS]
        for number, transform in enumerate(self.transforms):
            ids = transform(ids, keys, number, self.vocabulary)
        if self.tokens.max_tokens is not None:
            ids = ids[:, : self.tokens.max_tokens]
        if self.pad != "none":
            ids = self._padded(ids, (serialized.shape[0], *self.element_shape))
        inputs = self.further.inputs(TOKENS, ids, parsed)
        return (inputs, self.labels.targets(parsed)) if self.labels else inputs

    def _padded(self, ids: Any, shape: tuple[int | None, int | None]) -> Any:
        """[batch, ragged] -> [batch, length], at least 1 long: a model need not expect nothing."""
        dense = ids.to_tensor(default_value=self.tokens.pad_id, shape=shape)
        missing = tf.maximum(1 - tf.shape(dense)[1], 0)
        dense = tf.pad(dense, [[0, 0], [0, missing]], constant_values=self.tokens.pad_id)
        return tf.ensure_shape(dense, shape)


def token_parser(split: OpenSplit, options: ReadOptions) -> TokenParser:
    """Creates the parser of a split of token ids.

    Raises:
        ShardSetError: A record has no label, or the set no tokenizer.
        DamageError: The index does not count tokens.
        UsageError: An option is not for token ids.
    """
    check_fits(options, "tokens", split.root)
    check_choice("augment", options.augment, TOKEN_AUGMENTATIONS["tokens"], split.root)
    vocabulary = find_vocabulary(split.root, split.manifest)
    limit = options.max_tokens
    counts = _count_tokens(split, limit)
    return TokenParser(
        labels=find_labels(split, options.label),
        further=find_further(split, options, (TOKENS,)),
        tokens=TokenInfo(
            vocabulary_size=vocabulary.rows,
            pad_id=vocabulary.padding,
            max_tokens=limit,
            num_tokens=counts.total,
            num_cut=counts.num_cut,
            padding_share=padding_share(counts, split.geometry, options),
        ),
        vocabulary=vocabulary,
        pad=options.pad,
        length=limit or max(1, counts.longest),
        transforms=TOKEN_AUGMENTATIONS["tokens"][options.augment],
        length_column=TOKENS if options.buckets > 1 else None,
    )


def _count_tokens(split: OpenSplit, limit: int | None) -> RecordLengths:
    """The tokens of every record, cut at a limit.

    Raises:
        DamageError: The index does not count them.
    """
    problem = ", ".join(split.index.column_names)
    if TOKENS in split.index.column_names:
        try:
            return RecordLengths(split.index[TOKENS], limit)
        except pa.ArrowInvalid as error:
            problem = str(error)
    raise DamageError(
        f"The index of token ids has no column {TOKENS!r} without nulls, but {problem}, in "
        f"{split.where}. Build the set again."
    )
