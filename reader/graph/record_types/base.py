"""The interface of record types to the pipeline of a graph."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from reader.record_types.base import Parser


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphParser(abc.ABC):
    """How the serialized records of one split become elements.

    A record type derives from `RecordParser` or from `BatchParser`.

    Attributes:
        like: The parser in NumPy that gives the same elements.
    """

    like: Parser


class RecordParser(GraphParser):
    """Decodes one record at a time, since each is worth a call: images."""

    @property
    def num_random(self) -> int:
        """Number of random numbers that one record takes."""
        return 0

    @property
    def boxes_many(self) -> bool:
        """Whether `boxed` is to be called."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether the records of a batch are mixed with one another, by `finish`."""
        return False

    @abc.abstractmethod
    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string tf.train.Examples -> {feature: [n] ...}."""

    def boxed(self, features: dict[str, Any], sizes: Any, random: Any) -> dict[str, Any]:
        """Adds to what `parse` returned the box to cut out of each image.

        Args:
            features: Features of n records.
            sizes: [n, 2] int32, height and width in pixels.
            random: [n, num_random] float32.
        """
        return features

    @abc.abstractmethod
    def decode(self, features: dict[str, Any], random: Any) -> Any:
        """{feature: scalar ...}, [num_random] float32 -> (input, target), or input alone.

        Where records are mixed, something else, of whose batches `finish` makes this.
        """

    def finish(self, batch: Any) -> Any:
        """A batch of what `decode` returns -> (inputs, targets), or inputs alone, if `mixes`."""
        return batch


class BatchParser(GraphParser):
    """Decodes a batch of records at a time, since each is little work: text."""

    @abc.abstractmethod
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        """[batch] string tf.train.Examples, [batch] uint64 -> a batch of the data set.

        The random numbers of a record in an epoch are drawn from its key.
        """
