"""The interface of record types to the loader."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reader.order.buckets import Lookup
from reader.transforms.normalization import Normalization
from reader.windows import WindowRows
from shard_format import Feature


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


@dataclasses.dataclass(frozen=True)
class ElementSpec:
    """Describes one value of an element, without the batch.

    Attributes:
        shape: Shape of the value; None where a side varies by batch.
        dtype: Element type; "string" of texts, which are bytes in NumPy.
        lists: How many lists are around the arrays of a batch in NumPy: 0 where the batch is an
            array, 1 where each record has an array of its own shape, 2 where it has a list of
            arrays. TensorFlow has ragged tensors there.
        is_encoded: Whether arrays are the bytes of images: strings in TensorFlow.
    """

    shape: tuple[int | None, ...]
    dtype: str
    lists: int = 0
    is_encoded: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parser(abc.ABC):
    """How the records of one split become batches.

    The parts of a batch are decoded by several threads, and joined when all are there.

    Attributes:
        features: Features that are read of each record.
        normalization: Normalization of images; None where there is none.
        tokens: Description of token ids; None for images and raw text.
        lengths: Lengths of the records where batches of similar length are made, else None.
    """

    features: tuple[Feature, ...]
    normalization: Normalization | None = None
    tokens: TokenInfo | None = None
    lengths: Lookup | None = None

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
    def specs(self) -> Any:
        """An `ElementSpec` of each value, in the structure of a batch."""

    @property
    @abc.abstractmethod
    def targets(self) -> str:
        """Kind of the targets of an element: one of `reader.stream.TARGETS`."""

    @property
    def part_records(self) -> int:
        """Number of records that are worth a thread's while."""
        return 1 << 30

    @property
    def needs_tensorflow(self) -> str:
        """The option that only TensorFlow can do, such as "Noise in augment"; empty without one."""
        return ""

    @property
    def mixes(self) -> bool:
        """Whether `join` mixes records with one another, which is worth a thread's while too."""
        return False

    def stages(self) -> list[tuple[str, Parser]]:
        """(stage, parser that ends behind it), for measurements; the last one is the parser itself.

        Stages are named as in `reader.StageTimes`.
        """
        return [("augment", self)]

    def start(self, size: int) -> Any:
        """The memory of a batch of that many records; None where its size is not known yet."""
        return None

    @abc.abstractmethod
    def decode(self, rows: WindowRows, memory: Any, begin: int) -> Any:
        """A part of a batch: at least one record, of which it writes to the memory what fits there.

        Args:
            rows: The records.
            memory: What `start` returned.
            begin: Place of the first record in the batch.

        Raises:
            DamageError: A value is damaged; names its place.
        """

    @abc.abstractmethod
    def join(self, memory: Any, parts: list[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
        """The batch of all parts in order.

        Args:
            memory: What `start` returned.
            parts: What `decode` returned.
            kept: [n] bool, False for records that are left out; None where all are kept.
        """


def joined(parts: Sequence[Any], kept: npt.NDArray[np.bool_] | None) -> Any:
    """The values of all parts: arrays, lists, or dictionaries; without what is left out.

    Gives None where the parts are None.
    """
    if parts[0] is None:
        return None
    if isinstance(parts[0], dict):
        return {name: joined([part[name] for part in parts], kept) for name in parts[0]}
    if isinstance(parts[0], list):
        values = list(itertools.chain.from_iterable(parts))
        return values if kept is None else list(itertools.compress(values, kept))
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole if kept is None else whole[kept]
