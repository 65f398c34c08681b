"""Documents as strings, with one label, any number of them, or none."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from foundation.options import check_choice
from reader.options import ReadOptions, check_fits
from reader.record_types.base import OpenSplit
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


@dataclasses.dataclass(frozen=True)
class TextRecords:
    """Records of type "text".

    Input: tf.train.Examples with a document each, and its label or labels.
    Output: ([batch] string of UTF-8, target); the strings alone where the set has no labels. The
    target is [batch] int64, or [batch, num_classes] float32 of zeros and ones.

    Attributes:
        labels: The features with the targets; none where there are no labels.
        further: Features that are handed out with the text.
        steps: Of the augmentation, in order.
    """

    labels: TargetLabels
    further: FurtherFeatures
    steps: tuple[Step, ...]

    element_shape: ClassVar[tuple[int | None, ...]] = ()
    element_dtype: ClassVar[str] = "string"
    normalization: ClassVar[None] = None
    tokens: ClassVar[None] = None
    length_column: ClassVar[str | None] = None

    @property
    def targets(self) -> str:
        """One of `reader.stream.TARGETS`."""
        return self.labels.kind

    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        """See `BatchRecords.decode_batch`."""
        text_spec = {TEXT: tf.io.FixedLenFeature([], tf.string)}
        wanted = text_spec | self.further.specs | self.labels.specs
        found = tf.io.parse_example(serialized, wanted)
        text = found[TEXT]
        for number, step in enumerate(self.steps):
            text = step(text, Draws(keys).stream(number))
        inputs = self.further.inputs(TEXT, text, found)
        return (inputs, self.labels.targets(found)) if self.labels else inputs


def text_records(split: OpenSplit, options: ReadOptions) -> TextRecords:
    """The record type of one split of documents.

    Raises:
        ShardSetError: The schema has no text, or a record has no label.
        UsageError: An option is not for raw text, or the synonyms cannot be read.
    """
    check_fits(options, "text", split.root)
    check_choice("augment", options.augment, TEXT_AUGMENTATIONS, split.root)
    if all(feature.name != TEXT for feature in split.schema.features):
        found = ", ".join(f"{feature.name} ({feature.kind})" for feature in split.schema.features)
        raise ShardSetError(
            f"No feature {TEXT!r} among {found or 'no features'} in {split.where}. Build the set "
            "again."
        )
    synonyms = None if options.synonyms is None else read_synonyms(Path(options.synonyms))
    return TextRecords(
        labels=find_labels(split, options.label),
        further=find_further(split, options, (TEXT,)),
        steps=tuple(make_step(names, synonyms) for names in TEXT_AUGMENTATIONS[options.augment]),
    )
