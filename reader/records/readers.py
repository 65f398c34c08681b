"""Readers of serialized records by their numbers, in NumPy."""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from shard_format.example_parser import Examples

Int64Array = npt.NDArray[np.int64]

# The columns of an index by which records are found.
LOCATION_COLUMNS = ("offset", "length")


class RecordReader(abc.ABC):
    """Reads serialized records of a split. Threads may read at the same time."""

    @abc.abstractmethod
    def read(self, numbers: Int64Array) -> Examples:
        """The records of [n] numbers, n at least 1, in their order.

        Raises:
            ShardSetError: A shard cannot be read.
            DamageError: A record is damaged.
        """

    def read_skipping(self, numbers: Int64Array) -> tuple[Examples, Int64Array]:
        """The records, with another one of the split in place of each that is damaged.

        Returns:
            The records, and the [n] int64 numbers of the records that they are.
        """
        return self.read(numbers), numbers

    @abc.abstractmethod
    def place_of(self, number: int) -> str:
        """Where a record is, for messages."""


@dataclasses.dataclass(frozen=True)
class MemoryRecordReader(RecordReader):
    """Picks records out of one buffer.

    Attributes:
        examples: All records of the split.
        where: Place of the set, for messages.
        sources: [records] int64, the numbers of the records that these are, where others are in
            place of damaged ones; None where none is.
    """

    examples: Examples
    where: Path
    sources: Int64Array | None = None

    @override
    def read(self, numbers: Int64Array) -> Examples:
        return self.examples.take(numbers)

    @override
    def read_skipping(self, numbers: Int64Array) -> tuple[Examples, Int64Array]:
        return self.read(numbers), numbers if self.sources is None else self.sources[numbers]

    @override
    def place_of(self, number: int) -> str:
        return f"record number {number} of {self.where}"
