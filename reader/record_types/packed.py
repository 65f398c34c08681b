"""Token ids of several documents in sequences of one length, for language modelling."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import ElementSpec, Parser, TokenInfo, joined
from reader.record_types.further import FurtherFeatures, find_further
from reader.records.open_split import OpenSplit
from reader.records.vocabulary import SetVocabulary, find_vocabulary
from reader.transforms.tokens import TOKEN_AUGMENTATIONS, transformed
from reader.windows import WindowRows
from shard_format import DamageError, ShardSetError, UsageError
from shard_format.example_parser import NumberLists

FEATURES = ("tokens", "segments", "positions")
_INPUTS = "inputs"  # tokens without the last one, augmented
PADDING = "padding"  # the column of the index that counts positions without a token


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackedParser(Parser):
    """Parses packed sequences of N tokens.

    A record has tokens, segments (1, 2, ... for each document, 0 where there is none) and positions
    (within the document), [N] each.
    Output: (inputs, targets, weights), the next token being the target at every position:
        inputs: {"tokens", "segments", "positions"}, each [batch, N - 1] int64, without the last.
        targets: [batch, N - 1] int64, the tokens without the first.
        weights: [batch, N - 1] float32, 1 where the target is of the same document as its input,
            0 where it is padding or the first token of another one.
    Without segments it is (tokens, targets); the tokens are in a dictionary where there are further
    features.

    Attributes:
        tokens: Description of the ids.
        vocabulary: SetVocabulary of the set.
        length: N.
        further: Features that are handed out with the inputs.
        augment: Name of the augmentation, which changes the inputs alone.
        names: The features that make up the sequences: FEATURES, or the tokens alone.
    """

    tokens: TokenInfo
    vocabulary: SetVocabulary
    length: int
    further: FurtherFeatures
    augment: str
    names: tuple[str, ...]

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return (self.length - 1,)

    @property
    @override
    def element_dtype(self) -> str:
        return "int64"

    @property
    @override
    def specs(self) -> Any:
        ids = ElementSpec((self.length - 1,), "int64")
        sequences = dict.fromkeys(self.names, ids)
        weights = ElementSpec(ids.shape, "float32") if self.has_segments else None
        return self.element(sequences, self.further.specs, ids, weights)

    @property
    @override
    def targets(self) -> str:
        return "next_tokens"

    @property
    def has_segments(self) -> bool:
        """Whether segments, positions and weights are handed out."""
        return len(self.names) > 1

    def element(
        self, sequences: Mapping[str, Any], further: Mapping[str, Any], targets: Any, weights: Any
    ) -> Any:
        """A batch or an element in the structure of the output.

        Args:
            sequences: The inputs of each of the names.
            further: The further features, in nested dictionaries.
            targets: The next tokens.
            weights: Is left out where there are no segments.
        """
        inputs = {**sequences, **further}
        if self.has_segments:
            return inputs, targets, weights
        return (inputs if self.further.features else sequences["tokens"]), targets

    @override
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        sequences = {name: rows.numbers_of(name).values for name in self.names}
        sequences = {name: ids.reshape(-1, self.length) for name, ids in sequences.items()}
        if self.augment != "none":
            inputs = sequences["tokens"][:, :-1]
            splits = np.arange(len(rows) + 1) * (self.length - 1)
            lists = NumberLists(inputs.ravel(), splits)
            lists = transformed(lists, rows.keys, "packed", self.augment, self.vocabulary)
            masked = lists.values.reshape(inputs.shape)
            sequences[_INPUTS] = np.where(sequences["segments"][:, :-1] > 0, masked, inputs)
        return sequences, self.further.values(rows.columns, rows.where)

    @override
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        sequences, further = (joined(each, kept) for each in zip(*parts, strict=True))
        inputs = {name: sequences[name][:, :-1] for name in self.names}
        inputs["tokens"] = sequences.get(_INPUTS, inputs["tokens"])
        weights = None
        if self.has_segments:
            segments = sequences["segments"]
            same = (segments[:, :-1] == segments[:, 1:]) & (segments[:, 1:] > 0)
            weights = same.astype(np.float32)
        return self.element(inputs, further, sequences["tokens"][:, 1:], weights)


def packed_parser(split: OpenSplit, options: ReadOptions) -> PackedParser:
    """Creates the parser of a split of packed sequences.

    Raises:
        ShardSetError: The schema lacks a feature or a length, or the set has no tokenizer.
        DamageError: The index does not count padding.
        UsageError: An option is not for packed sequences.
    """
    check_fits(options, "packed", split.root)
    check_choice("augment", options.augment, TOKEN_AUGMENTATIONS["packed"], split.root)
    vocabulary = find_vocabulary(split.root, split.manifest)
    length = _length(split)
    if PADDING not in split.index.column_names:
        raise DamageError(
            f"The index of packed sequences has no column {PADDING!r}, only "
            f"{', '.join(split.index.column_names)}, in {split.where}. Build the set again."
        )
    if not options.segments and options.augment != "none":
        raise UsageError(
            f"augment={options.augment!r} needs the segments of {split.root}, which tell padding "
            "from tokens, and segments=False does not read them. Leave one of them out."
        )
    padding = _count_padding(split)
    positions = split.geometry.records * length
    further = find_further(split, options, FEATURES)
    names = FEATURES if options.segments else FEATURES[:1]
    return PackedParser(
        tokens=TokenInfo(
            vocabulary_size=vocabulary.rows,
            pad_id=_padding(vocabulary),
            max_tokens=length,
            num_tokens=positions - padding,
            num_cut=0,
            padding_share=padding / positions,
        ),
        vocabulary=vocabulary,
        length=length,
        features=(*(split.schema[name] for name in names), *further.stored),
        further=further,
        augment=options.augment,
        names=names,
    )


def _count_padding(split: OpenSplit) -> int:
    """Tokens of padding of a split; of a large one, from its statistics if it has them."""
    info = split.manifest.splits[split.name]
    known = info.statistics.get("packing")
    if (
        split.selection is None
        and info.index
        and isinstance(known, dict)
        and isinstance(known.get("padding"), int)
    ):
        return int(known["padding"])
    return int(np.asarray(split.column(PADDING).to_numpy(), np.int64).sum())


def _padding(vocabulary: SetVocabulary) -> int:
    """The id that sequences were padded with: where there is none of padding, that of the end."""
    if vocabulary.pad_id is None and vocabulary.end_id is not None:
        return vocabulary.end_id
    return vocabulary.padding


def _length(split: OpenSplit) -> int:
    """Number of tokens of every sequence."""
    shapes = {feature.name: feature.shape for feature in split.schema.features}
    stored = {name: shapes.get(name) for name in FEATURES}
    lengths = {shape[0] for shape in stored.values() if shape and len(shape) == 1}
    if None in stored.values() or len(lengths) != 1 or min(lengths) < 2:
        raise ShardSetError(
            f"{', '.join(FEATURES)} of packed sequences are {stored}, not of one length of 2 or "
            f"more, in {split.where}. Build the set again."
        )
    return lengths.pop()
