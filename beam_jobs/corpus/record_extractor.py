"""What a record type takes out of a corpus: an image or a document, from a file or a column."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.record import RawRecord, ReadResult, Rejection, SourceItem
from beam_jobs.options import PreprocessOptions


class TextForm(NamedTuple):
    """How files of text are read.

    Attributes:
        encoding: Character encoding; "auto" detects it.
        per_line: Whether every line of plain text is a record.
        separator: What separates records of plain text; None if nothing does.
        columns: Names of the columns of CSV and TSV without a header line; None if it has one.
    """

    encoding: str = "utf-8"
    per_line: bool = False
    separator: str | None = None
    columns: str | None = None


class RecordExtractor(abc.ABC):
    """Takes the records of one record type out of a corpus; an instance belongs to one job.

    Attributes:
        noun: Name of a record in reasons.
        plural: Name of several records.
        groups_members: Whether members of an archive with one key are one record (WebDataset).
        in_file_names: Whether the name of a file may name its split, which holds for files of many
            records (train-00000-of-00005.parquet).
        labels_around_archives: Whether the folders around an archive label members that are in
            no folder.
        needs_class_folders: Whether only folders can label records.
        limit: Most bytes of a record.
        weight: Bytes to read for each byte of a file: of a list of URLs more than 1.
    """

    noun: str
    plural: str
    groups_members: ClassVar[bool] = False
    weight: ClassVar[int] = 1
    labels_around_archives: ClassVar[bool] = False
    in_file_names: bool = False
    needs_class_folders: bool
    limit: int

    @abc.abstractmethod
    def resolved(self) -> PreprocessOptions:
        """The options of the job, with everything settled that a bounded look at SRC settles.

        Raises:
            InputError: They ask for columns that are not there, or SRC is ambiguous.
        """

    @abc.abstractmethod
    def container_of(self, item: SourceItem) -> str:
        """The key of CONTAINERS that a file is; "" if it is not an archive, or cannot be read."""

    @abc.abstractmethod
    def known_format(self, item: SourceItem) -> str:
        """The key of FORMATS of an item that needs no look into it; "" for others."""

    @abc.abstractmethod
    def format_of(self, head: bytes, name: str) -> str:
        """The key of FORMATS that a file is by its content; "" if it is none.

        Args:
            head: Its first bytes, decompressed.
            name: Its own name.
        """

    @abc.abstractmethod
    def is_primary(self, name: str) -> bool:
        """Whether a member of an archive is a record by its name; others describe records."""

    def may_hold(self, path: bytes) -> bool:
        """Whether a file may hold records, by its content and its name."""
        return True

    def is_companion(self, path: bytes) -> bool:
        """Whether a file is read with the one that it describes, and is not listed itself."""
        return False


class ItemExtractor(RecordExtractor):
    """Takes records out of items that it lists itself, whatever files there are."""

    @abc.abstractmethod
    def items(self) -> Iterator[SourceItem]:
        """The items.

        Raises:
            InputError: They cannot be listed.
        """

    @abc.abstractmethod
    def read(self, item: SourceItem) -> Iterator[ReadResult]:
        """The records of an item that `items` has listed."""


class FileExtractor(RecordExtractor):
    """Takes records out of files whose formats find them.

    Attributes:
        column_flag: The option that names its columns.
        columns: The columns of a table that make one record.
        alternatives: Other usual names of a column, tried where it has its default name.
        digits: Width of a record number in a record id; it is part of the ids of existing sets.
        keeps_example: Whether the original of a record in a TFRecord file is the whole Example.
        text_form: How files of text are read.
    """

    column_flag: ClassVar[str]
    digits: int
    keeps_example: ClassVar[bool] = False
    text_form: TextForm = TextForm()
    columns: tuple[str, ...]
    alternatives: tuple[str, ...] = ()

    @abc.abstractmethod
    def holds(self, kind: pa.DataType) -> bool:
        """Whether a column of a type can hold records."""

    @abc.abstractmethod
    def cells(self, column: pa.Array, name: str) -> list[bytes | Rejection]:
        """The bytes in each cell of a column, or why there are none."""

    @abc.abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """The payload in the bytes of a cell.

        Raises:
            Rejection: There is none.
        """

    @abc.abstractmethod
    def from_fields(self, fields: Mapping[str, Any]) -> Any:
        """The payload in the fields of an object or a row of text.

        Raises:
            Rejection: A column is missing, or has a value of another type.
        """

    def from_answer(self, record: RawRecord, body: bytes, content_type: str) -> RawRecord:
        """A record of what the URL in its place gave.

        Args:
            record: The row of the list.
            body: What the server sent.
            content_type: What the server calls it, which may be wrong; "" if it says nothing.

        Raises:
            Rejection: There is no record in it.
        """
        return record._replace(original=body, payload=self.from_bytes(body))

    @abc.abstractmethod
    def example_original(
        self, features: Mapping[str, Sequence[Any]], example: bytes, names: FeatureNames
    ) -> bytes:
        """The original bytes of a record in a tf.train.Example: what a replacement would hold.

        Args:
            features: Values by feature.
            example: The serialized Example.
            names: What its folder says about the features.

        Raises:
            Rejection: It has no such feature, or one of another type.
        """
