"""The interface of record types to the pipeline of a graph."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from reader.record_types.base import TokenInfo
from reader.transforms.normalization import Normalization


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphParser(abc.ABC):
    """How the serialized records of one split become elements.

    A record type derives from `RecordParser` or from `BatchParser`.

    Attributes:
        normalization: Normalization of images; None where there is none.
        tokens: Description of token ids; None for images and raw text.
    """

    normalization: Normalization | None = None
    tokens: TokenInfo | None = None

    @property
    @abc.abstractmethod
    def element_shape(self) -> tuple[int | None, ...]:
        """Shape of the input of an element, without the batch; None where it varies."""

    @property
    @abc.abstractmethod
    def element_dtype(self) -> str:
        """Element type of the input of an element."""

    @property
    @abc.abstractmethod
    def targets(self) -> str:
        """Kind of the targets of an element: one of `reader.stream.TARGETS`."""


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchParser(GraphParser):
    """Decodes a batch of records at a time, since each is little work: text.

    Attributes:
        length_column: Column of the index by which batches of similar length are made; None where
            batches are not.
    """

    length_column: str | None = None

    @abc.abstractmethod
    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        """[batch] string tf.train.Examples, [batch] uint64 -> a batch of the data set.

        The random numbers of a record in an epoch are drawn from its key.
        """
