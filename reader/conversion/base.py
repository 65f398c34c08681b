"""The interface of formats that a set is converted to."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from reader.access.examples import Values
from shard_format import Schema

CHECKSUM = "record_crc32c"
"""Name of a further value of each record: the CRC-32C of its tf.train.Example in the set."""


class Record(NamedTuple):
    """A record to write.

    Attributes:
        number: Its place among the records of the split that are written.
        example: Its tf.train.Example, serialized; in a buffer of many records.
        checksum: CRC-32C of these bytes.
        values: Its features, images as they are stored; see `ExampleDecoder`.
    """

    number: int
    example: memoryview
    checksum: int
    values: Values


@dataclasses.dataclass(frozen=True)
class ConversionPiece:
    """Some consecutive records of a split, which become files of their own.

    Attributes:
        split: Name of the split.
        number: Its place among the pieces of the split.
        pieces: Number of pieces of the split.
        first: Number of the first record.
        records: Number of records, at least 1.
    """

    split: str
    number: int
    pieces: int
    first: int
    records: int

    @property
    def name(self) -> str:
        """A name that no other piece has."""
        return f"{self.split}-{self.number:06d}"


@dataclasses.dataclass(frozen=True)
class Written:
    """The result of a piece.

    Attributes:
        piece: The piece.
        files: Files with records, relative to the output.
        bytes: Size of each.
        sha256: SHA-256 of each, in hex.
        details: What the format needs to finish; None once it is noted.
    """

    piece: ConversionPiece
    files: tuple[str, ...]
    bytes: tuple[int, ...]
    sha256: tuple[str, ...]
    details: Any


class ConversionFormat(abc.ABC):
    """Writes records in a format, through the library of that format.

    Attributes:
        packages: The packages that write the files.
        decodes: Whether it uses `Record.values`.
        files: What the files are, for README.md.
        reading: A program that reads the files of "{split}" in the current folder.
        data_files: Pattern of the files of "{split}" from which the Hugging Face Hub loads them; ""
            for a format that it does not load.
    """

    files: ClassVar[str]
    reading: ClassVar[str]
    data_files: ClassVar[str] = ""

    packages: ClassVar[tuple[str, ...]] = ()
    decodes: ClassVar[bool] = True

    def load(self) -> None:  # noqa: B027 (most formats need nothing)
        """Imports the library.

        Raises:
            ModuleNotFoundError: It is not installed.
        """

    def has_file_per_record(self, schema: Schema) -> bool:
        """Whether there are too many files for a list of them."""
        return False

    def check(self, schema: Schema) -> None:  # noqa: B027
        """Checks that the format holds all features.

        Raises:
            InputError: It does not hold one of them.
        """

    @abc.abstractmethod
    def write(
        self,
        name: str,
        schema: Schema,
        piece: ConversionPiece,
        records: Iterator[Record],
        folder: Path,
    ) -> Any:
        """Writes the records of a piece.

        Args:
            name: Name of the set.
            schema: Its schema.
            piece: The piece.
            records: Its records, in order.
            folder: Empty folder for its files, which have the names here that they will have in
                the output.

        Returns:
            What `finish` gets of this piece, as JSON has it.
        """

    def finish(  # noqa: B027
        self,
        name: str,
        schema: Schema,
        splits: Mapping[str, Sequence[ConversionPiece]],
        details_of: Callable[[ConversionPiece], Any],
        folder: Path,
    ) -> None:
        """Writes the files that describe all pieces.

        Args:
            name: Name of the set.
            schema: Its schema.
            splits: The pieces of each split, in order.
            details_of: What `write` has returned for a piece.
            folder: As in `write`.
        """
