"""The interface of record types to the pipeline, and what they are created from."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from reader.order.geometry import Geometry
from reader.transforms.normalization import Normalization
from shard_format import Manifest, Schema


@dataclasses.dataclass(frozen=True)
class OpenSplit:
    """A split whose index is open and whose records are not read yet.

    Attributes:
        root: Directory of the set.
        manifest: Of the set.
        index: One row per record; its columns are memory-mapped.
        geometry: How it is divided for reading.
        where: The index file, for messages.
    """

    root: Path
    manifest: Manifest
    index: pa.Table
    geometry: Geometry
    where: Path

    @property
    def schema(self) -> Schema:
        """Of the set."""
        return self.manifest.schema


@dataclasses.dataclass(frozen=True)
class TokenInfo:
    """Describes a stream of token ids.

    Attributes:
        vocabulary_size: Every id of a batch is smaller, padding included: the rows that an
            embedding needs.
        pad_id: The id where there is no token: the tokenizer's own padding, or an id of its
            own, behind all others, where the tokenizer has none. Packed sequences were padded when
            they were made, there with the id that ends a document: padding is segment 0.
        max_tokens: No element is longer; None where nothing is cut.
        num_tokens: Tokens of one pass, without padding, after records were cut to max_tokens.
        num_cut: Records that were cut.
        padding_share: Positions of the batches that hold no token, in [0, 1), computed from the
            index for the first epoch, before augmentation; for batches that are as long as their
            longest record, for the first `token_lengths.MAX_WINDOWS` windows of it.
    """

    vocabulary_size: int
    pad_id: int
    max_tokens: int | None
    num_tokens: int
    num_cut: int
    padding_share: float


class RecordType(Protocol):
    """The records of one split, for the pipeline."""

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        """Shape of the input of an element, without the batch; None where it varies."""

    @property
    def element_dtype(self) -> str:
        """Element type of the input of an element."""

    @property
    def targets(self) -> str:
        """The targets of an element: one of `reader.stream.TARGETS`."""

    @property
    def normalization(self) -> Normalization | None:
        """The normalization of images."""

    @property
    def tokens(self) -> TokenInfo | None:
        """The description of token ids."""


class SingleRecords(RecordType, Protocol):
    """Records that are decoded one at a time, since each is worth a call: images."""

    @property
    def num_random(self) -> int:
        """Random numbers that one record takes."""

    def parse(self, serialized: Any) -> dict[str, Any]:
        """[n] string tf.train.Examples -> {feature: [n] ...}."""

    @property
    def boxes_many(self) -> bool:
        """Whether `boxed` may be called."""

    def boxed(self, features: dict[str, Any], sizes: Any, random: Any) -> dict[str, Any]:
        """What `parse` gave, with what is to be cut out of each; sizes [n, 2], random [n, ...]."""

    def decode(self, features: dict[str, Any], random: Any) -> Any:
        """{feature: scalar ...}, [num_random] float32 -> (input, target), or input alone.

        Where records are mixed, something else, of whose batches `finish` makes this.
        """

    @property
    def mixes(self) -> bool:
        """Whether the records of a batch are mixed with one another."""

    def finish(self, batch: Any) -> Any:
        """A batch of what `decode` gives -> (inputs, targets), or inputs alone, if `mixes`."""


class BatchRecords(RecordType, Protocol):
    """Records that are decoded a batch at a time, since each is little work: text."""

    @property
    def length_column(self) -> str | None:
        """The column of the index by which batches of similar length are made; None for any."""

    def decode_batch(self, serialized: Any, keys: Any) -> Any:
        """[batch] string tf.train.Examples, [batch] uint64 -> a batch of the data set.

        A key is what the random numbers of a record in an epoch are drawn from.
        """
