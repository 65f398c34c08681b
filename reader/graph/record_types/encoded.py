"""Images as they are stored, in a graph: strings."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import batch_targets, further_specs, further_values, label_specs
from reader.graph.record_types.base import BatchParser
from reader.record_types.encoded import EncodedImageParser


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphEncodedImageParser(BatchParser):
    """Hands out images without decoding them.

    Output: ([batch] string, target), as described in `EncodedImageParser`.

    Attributes:
        like: The parser in NumPy that gives the same images.
    """

    like: EncodedImageParser

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        name = self.like.image.name
        wanted = {name: tf.io.FixedLenFeature([], tf.string)}
        wanted |= further_specs(self.like.further) | label_specs(self.like.labels)
        parsed = tf.io.parse_example(serialized, wanted)
        further = further_values(self.like.further, parsed)
        return self.like.element(parsed[name], further, batch_targets(self.like.labels, parsed))
