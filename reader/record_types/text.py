"""Documents as strings, with one label, any number of them, or none."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import tensorflow as tf
from typing_extensions import override

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import BatchParser, OpenSplit, Parser
from reader.record_types.features import (
    FurtherFeatures,
    TargetLabels,
    find_further,
    find_labels,
)
from reader.transforms.text import TEXT_AUGMENTATIONS, Draws, Step, make_step
from reader.transforms.text.synonyms import read_synonyms
from shard_format import ShardSetError

TEXT = "text"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextParser(BatchParser):
    """Parses documents as strings.

    Input: tf.train.Examples with a document each, and its label or labels.
    Output: ([batch] string of UTF-8, target); the strings alone where the set has no labels. The
    target is [batch] int64, or [batch, num_classes] float32 of zeros and ones.

    Attributes:
        labels: Features with the targets; none where there are no labels.
        further: Features that are handed out with the text.
        steps: Steps of the augmentation, in order.
    """

    labels: TargetLabels
    further: FurtherFeatures
    steps: tuple[Step, ...]

    @property
    @override
    def element_shape(self) -> tuple[int | None, ...]:
        return ()

    @property
    @override
    def element_dtype(self) -> str:
        return "string"

    @property
    @override
    def targets(self) -> str:
        return self.labels.kind

    @override
    def stages(self) -> list[tuple[str, Parser]]:
        return [("parse", dataclasses.replace(self, steps=())), ("augment", self)]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        text_spec = {TEXT: tf.io.FixedLenFeature([], tf.string)}
        wanted = text_spec | self.further.specs | self.labels.specs
        parsed = tf.io.parse_example(serialized, wanted)
        text = parsed[TEXT]
        for number, step in enumerate(self.steps):
            text = step(text, Draws(keys).stream(number))
        inputs = self.further.inputs(TEXT, text, parsed)
        return (inputs, self.labels.targets(parsed)) if self.labels else inputs


def text_parser(split: OpenSplit, options: ReadOptions) -> TextParser:
    """Creates the parser of a split of documents.

    Raises:
        ShardSetError: The schema has no text, or a record has no label.
        UsageError: An option is not for raw text, or the synonyms cannot be read.
    """
    check_fits(options, "text", split.root)
    check_choice("augment", options.augment, TEXT_AUGMENTATIONS, split.root)
    if all(feature.name != TEXT for feature in split.schema.features):
        names = ", ".join(f"{feature.name} ({feature.kind})" for feature in split.schema.features)
        raise ShardSetError(
            f"No feature {TEXT!r} among {names or 'no features'} in {split.where}. Build the set "
            "again."
        )
    synonyms = None if options.synonyms is None else read_synonyms(Path(options.synonyms))
    return TextParser(
        labels=find_labels(split, options.label),
        further=find_further(split, options, (TEXT,)),
        steps=tuple(make_step(names, synonyms) for names in TEXT_AUGMENTATIONS[options.augment]),
    )
