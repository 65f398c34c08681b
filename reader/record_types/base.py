"""The interface of record types to the pipeline, and what a parser is created from."""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path
from typing import Any

from reader.order.geometry import Geometry
from reader.records.index_columns import GraphColumns, IndexColumns, PythonColumns
from reader.records.split_index import IndexInParts, SplitIndex
from reader.transforms.normalization import Normalization
from shard_format import Manifest, Schema


@dataclasses.dataclass(frozen=True)
class OpenSplit:
    """A split whose index is open and whose records are not read yet.

    Attributes:
        root: Directory of the set.
        manifest: Manifest of the set.
        name: Name of the split.
        index: One row per record.
        geometry: Sizes of the parts in which it is read.
    """

    root: Path
    manifest: Manifest
    name: str
    index: SplitIndex
    geometry: Geometry

    @property
    def where(self) -> Path:
        """The index file, or the first part of the index, for messages."""
        return self.root / self.manifest.index_file(self.name)

    def columns(self, names: tuple[str, ...], *, portable: bool) -> GraphColumns:
        """Some columns of the index, in a graph.

        Args:
            names: Names of the columns.
            portable: Whether the graph may be sent to other processes, which have the files. Of an
                index in parts all are then opened.
        """
        if not portable and isinstance(self.index, IndexInParts):
            return PythonColumns(self.index)
        parts = self.manifest.index_parts(self.name)
        return IndexColumns([self.root / part.file for part in parts], names)

    @property
    def schema(self) -> Schema:
        """Schema of the set."""
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parser(abc.ABC):
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

    @abc.abstractmethod
    def stages(self) -> list[tuple[str, Parser]]:
        """(stage, parser that ends behind it), for measurements; the last one is the parser itself.

        Stages are named as in `reader.StageTimes`.
        """


class RecordParser(Parser):
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
class BatchParser(Parser):
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
