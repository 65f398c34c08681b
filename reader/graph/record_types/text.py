"""Documents as strings, with one label, any number of them, or none."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import batch_targets, further_specs, further_values, label_specs
from reader.graph.record_types.base import BatchParser
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
        like: The parser in NumPy that gives the same batches.
        steps: Steps of the augmentation, in order.
    """

    like: TextParser
    steps: tuple[Step, ...]

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        text_spec = {TEXT: tf.io.FixedLenFeature([], tf.string)}
        wanted = text_spec | further_specs(self.like.further) | label_specs(self.like.labels)
        parsed = tf.io.parse_example(serialized, wanted)
        text = parsed[TEXT]
        for number, step in enumerate(self.steps):
            text = step(text, Draws(keys).stream(number))
        further = further_values(self.like.further, parsed)
        return self.like.element(text, further, batch_targets(self.like.labels, parsed))


def text_parser(parser: TextParser) -> GraphTextParser:
    """The parser of a graph that does what one in NumPy does."""
    synonyms = None if parser.synonyms is None else synonym_table(parser.synonyms)
    steps = TEXT_AUGMENTATIONS[parser.augment]
    return GraphTextParser(like=parser, steps=tuple(make_step(step, synonyms) for step in steps))
