"""What a format is: how the bytes of a file become documents.

A file, or a stretch of one that was cut, is a `Part`. A format finds the documents in it, each with
the bytes that a mended file would hold, and turns such bytes into a document. What is wrong with
one of them is a refusal of that one, never an exception that gets out.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import TextOptions
from beam_jobs.sources.streams import Bytes

# The columns of a batch on its way to a record type; one "keep:NAME" for each of --keep-columns.
DOCUMENT_FIELDS = (
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("text", pa.large_string(), nullable=False),
    pa.field("original", pa.large_binary(), nullable=False),  # what quarantine keeps
    pa.field("is_html", pa.bool_(), nullable=False),
    pa.field("encoding", pa.string(), nullable=False),
    pa.field("label", pa.string()),
    pa.field("group", pa.string()),
    pa.field("split", pa.string()),
)
KEPT_PREFIX = "keep:"


def _not_packed() -> AbstractContextManager[Bytes]:
    raise ValueError("the part is not compressed")


class Part(NamedTuple):
    """A file, a member of an archive, or a stretch of a file.

    Attributes:
        file_id: The record id of the file, or of the member.
        open: Opens it from its beginning, decompressed; more than once.
        start: First byte of the stretch, of Parquet its first row; 0 unless the file was cut.
        end: One behind its last; -1 is the end of the file. Records that begin before it are
            of this part, to their last byte.
        label: What the folders say.
        split: Likewise.
        scratch: A path for a file, to be removed by who makes it.
        codec: How it is compressed; "" if it is not.
        open_packed: Opens it as it is compressed.
        class_names: If labels of a TFRecord are indexes into them.
    """

    file_id: str
    open: Callable[[], AbstractContextManager[Bytes]]
    start: int = 0
    end: int = -1
    label: str | None = None
    split: str | None = None
    scratch: Path = Path()
    codec: str = ""
    open_packed: Callable[[], AbstractContextManager[Bytes]] = _not_packed
    class_names: tuple[str, ...] = ()


class Found(NamedTuple):
    """A document that was found, not parsed yet.

    Attributes:
        place: Its name below the file's in its record id; "" if the file is the document.
        data: Its bytes; a mended file is put in their place.
        context: What else is needed to parse them: the names of the columns, the rest of the row.
        parsed: What finding them has told of these very bytes; None of a mended file.
    """

    place: str
    data: bytes
    context: Any = None
    parsed: Any = None


class Document(NamedTuple):
    """A document that was parsed.

    Attributes:
        text: What it says; may be empty.
        is_html: Whether the text is HTML.
        encoding: The character encoding it was in, as Python calls it.
        label: Its class, several joined by LABEL_SEPARATOR, or None.
        group: What --group-by says of it.
        split: The split it was given.
        kept: The values of --keep-columns, in their order.
    """

    text: str
    is_html: bool = False
    encoding: str = "utf-8"
    label: str | None = None
    group: str | None = None
    split: str | None = None
    kept: tuple[Any, ...] = ()


class RefusedDocument(NamedTuple):
    """A document, or a stretch of a file, that is no document.

    Attributes:
        place: As in Found.
        reject: Why, with the bytes.
        context: As in Found, for a mended file in their place.
    """

    place: str
    reject: Rejection
    context: Any = None


class Ignored(NamedTuple):
    """What is no document and was never meant to be one, such as a request in a WARC file.

    Attributes:
        place: As in Found.
    """

    place: str


class Stretch(NamedTuple):
    """A stretch of a file.

    Attributes:
        start: As in Part.
        end: As in Part.
        bytes: What it takes.
    """

    start: int
    end: int
    bytes: int


class Format(abc.ABC):
    """One way in which documents lie in a file; an instance belongs to one job.

    Attributes:
        has_columns: Whether records say by name what is text and what is label.
    """

    has_columns: bool = False

    def __init__(self, options: TextOptions) -> None:
        self.options = options

    @abc.abstractmethod
    def find(self, part: Part) -> Iterator[Found | RefusedDocument | Ignored]:
        """Every document of a part, in order.

        Raises:
            Rejection: The part cannot be read; only before anything was given.
            OSError: Likewise.
        """

    @abc.abstractmethod
    def parse(self, found: Found, part: Part) -> Document:
        """The document in some bytes.

        Raises:
            Rejection: There is none.
        """

    def stretches(self, file: Bytes, size: int) -> list[Stretch]:
        """Where a large file is cut: a function of the file alone; one stretch is not to cut.

        Args:
            file: At its beginning, not compressed.
            size: Its bytes.
        """
        return [Stretch(0, -1, size)]

    def columns(self, part: Part) -> list[dict[str, Any]]:
        """The first records of a file by column, for a look; empty if it has none.

        Raises:
            Rejection: It cannot be read.
        """
        return []


def place_at(offset: int) -> str:
    """The place of a record by its first byte, or by its number."""
    return f"{offset:012d}"


def rest_of(
    offset: int, damage: Rejection, data: bytes | None, context: Any = None
) -> RefusedDocument:
    """What lies behind damage, as one refused document.

    Args:
        offset: Where it begins.
        damage: What is wrong.
        data: The beginning of a record that could be read of it.
        context: As in Found.
    """
    detail = f"from byte {offset} on: {damage.detail}"
    reject = Rejection(
        damage.reason, detail, stage="read", data=damage.data if data is None else data
    )
    return RefusedDocument(place_at(offset), reject, context)
