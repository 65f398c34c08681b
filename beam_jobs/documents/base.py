"""What a format is: how the bytes of a file become documents.

A file, or a stretch of one that was cut, is a `Part`. A format finds the documents in it, each with
the bytes that a mended file would hold, and turns such bytes into a document. What is wrong with
one of them is a refusal of that one, never an exception that gets out.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import IO, Any, NamedTuple

import pyarrow as pa

from beam_jobs.options import TextOptions
from beam_jobs.rejects import Reject

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


class Part(NamedTuple):
    """A file, a member of an archive, or a stretch of a file.

    Attributes:
        file_id: The record id of the file, or of the member.
        open: Opens it from its beginning, decompressed; reading raises Refusal or OSError.
        start: First byte of the stretch; 0 unless the file was cut.
        end: One behind its last byte; -1 is the end of the file. Records that begin before it are
            of this part, to their last byte.
        label: What the folders say.
        split: Likewise.
    """

    file_id: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    start: int = 0
    end: int = -1
    label: str | None = None
    split: str | None = None


class Found(NamedTuple):
    """A document that was found, not parsed yet.

    Attributes:
        place: Its name below the file's in its record id; "" if the file is the document.
        data: Its bytes; a mended file is put in their place.
        row: What else its row or record says, by column, where `data` is the text alone.
    """

    place: str
    data: bytes
    row: Mapping[str, Any] | None = None


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
    """

    place: str
    reject: Reject


class Format(abc.ABC):
    """One way in which documents lie in a file; an instance belongs to one job.

    Attributes:
        cut_by_lines: Whether a file may be cut anywhere, since a record is a line.
    """

    cut_by_lines: bool = False

    def __init__(self, options: TextOptions) -> None:
        self.options = options

    @abc.abstractmethod
    def find(self, part: Part) -> Iterator[Found | RefusedDocument]:
        """Every document of a part, in order.

        Raises:
            Refusal: The rest of the part cannot be read; what was given so far stands.
            OSError: Likewise.
        """

    @abc.abstractmethod
    def parse(self, found: Found, part: Part) -> Document:
        """The document in some bytes.

        Raises:
            Refusal: There is none.
        """
