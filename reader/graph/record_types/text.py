"""Documents as strings, with one label, any number of them, or none."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import batch_targets, further_specs, label_specs
from reader.graph.record_types.base import BatchParser
from reader.record_types.features import FurtherFeatures, TargetLabels
from reader.record_types.text import TEXT, TextParser
from reader.transforms.text import TEXT_AUGMENTATIONS, Draws, Step, make_step
from reader.transforms.text.synonyms import synonym_table


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTextParser(BatchParser):
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
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        text_spec = {TEXT: tf.io.FixedLenFeature([], tf.string)}
        wanted = text_spec | further_specs(self.further) | label_specs(self.labels)
        parsed = tf.io.parse_example(serialized, wanted)
        text = parsed[TEXT]
        for number, step in enumerate(self.steps):
            text = step(text, Draws(keys).stream(number))
        inputs = self.further.inputs(TEXT, text, parsed)
        return (inputs, batch_targets(self.labels, parsed)) if self.labels else inputs


def text_parser(parser: TextParser) -> GraphTextParser:
    """The parser of a graph that does what one in NumPy does."""
    synonyms = None if parser.synonyms is None else synonym_table(parser.synonyms)
    names = TEXT_AUGMENTATIONS[parser.augment]
    return GraphTextParser(
        labels=parser.labels,
        further=parser.further,
        steps=tuple(make_step(step, synonyms) for step in names),
    )
