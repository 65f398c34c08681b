"""Records of any features, in a graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
from typing_extensions import override

from reader.graph.features import batch_targets, further_specs, further_values, label_specs
from reader.graph.record_types.base import BatchParser
from reader.record_types.record import FeatureParser


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphFeatureParser(BatchParser):
    """Parses records of any features.

    Output: ({name: values ...}, target), as described in `FeatureParser`.

    Attributes:
        like: The parser in NumPy that gives the same batches.
    """

    like: FeatureParser

    @override
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        wanted = further_specs(self.like.further) | label_specs(self.like.labels)
        parsed = tf.io.parse_example(serialized, wanted)
        further = further_values(self.like.further, parsed)
        return self.like.element(None, further, batch_targets(self.like.labels, parsed))


def record_parser(parser: FeatureParser) -> GraphFeatureParser:
    """The parser of a graph that does what one in NumPy does."""
    return GraphFeatureParser(like=parser)
