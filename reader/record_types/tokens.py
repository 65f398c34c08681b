"""Documents as token ids: cut, padded or ragged, in batches of similar length where asked for."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import Parser, TokenInfo, joined
from reader.record_types.features import LabeledParser, find_labels
from reader.record_types.further import find_further
from reader.record_types.token_lengths import RecordLengths, padding_share
from reader.records.open_split import OpenSplit
from reader.records.vocabulary import SetVocabulary, find_vocabulary
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, transformed
from reader.windows import WindowRows
from shard_format import DamageError
from shard_format.example_parser import NumberLists, join_columns

TOKENS = "tokens"  # the feature, and the column of the index that counts them


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenParser(LabeledParser):
    """Parses documents as token ids.

    Output: (ids [batch, length] int64, target), or the ids alone where the set has no labels. The
    length is that of the longest record of the batch (pad="longest"), the same for all batches
    (pad="max"), or each record's own (pad="none", a list of [length] arrays).

    Attributes:
        tokens: Description of the ids.
        vocabulary: SetVocabulary of the set.
        pad: One of `reader.options.PADS`.
        length: Length of every batch where pad is "max".
        augment: Name of the augmentation.
    """

    tokens: TokenInfo
    vocabulary: SetVocabulary
    pad: str
    length: int
    augment: str

    @property
    @override
    def input_name(self) -> str:
        return TOKENS

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
    def is_list(self) -> bool:
        return self.pad == "none"

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        return [("augment", dataclasses.replace(self, pad="none")), ("batch", self)]

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        ids = rows.numbers_of(TOKENS)
        ids = transformed(ids, rows.keys, "tokens", self.augment, self.vocabulary)
        if self.tokens.max_tokens is not None:
            ids = ids.cut(self.tokens.max_tokens)
        return ids, self.labels.targets(rows.columns), self.further.values(rows.columns, rows.where)

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        columns, labels, further = zip(*parts, strict=True)
        ids = cast(NumberLists, join_columns(columns))
        ids = ids if kept is None else ids.take(kept)
        return self.element(self._batch(ids), joined(further, kept), joined(labels, kept))

    def _batch(self, ids: NumberLists) -> Any:
        if self.pad == "none":
            return [ids[number] for number in range(len(ids))]
        # At least 1 long: a model need not expect nothing.
        longest = max(1, int(np.diff(ids.splits).max(initial=0)))
        return ids.dense(self.length if self.pad == "max" else longest, self.tokens.pad_id)


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
    labels = find_labels(split, options.label)
    further = find_further(split, options, (TOKENS, *labels.names))
    return TokenParser(
        features=(split.schema[TOKENS], *labels.features.values(), *further.stored),
        labels=labels,
        further=further,
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
        augment=options.augment,
        lengths=counts if options.buckets > 1 else None,
    )


def _count_tokens(split: OpenSplit, limit: int | None) -> RecordLengths:
    """The tokens of every record, cut at a limit.

    Raises:
        DamageError: The index does not count them.
    """
    problem = ", ".join(split.index.column_names)
    if TOKENS in split.index.column_names:
        try:
            return RecordLengths(split.column(TOKENS), limit)
        except pa.ArrowInvalid as error:
            problem = str(error)
    raise DamageError(
        f"The index of token ids has no column {TOKENS!r} without nulls, but {problem}, in "
        f"{split.where}. Build the set again."
    )
