"""A format: how the bytes of a file become records.

A file, a member of an archive or a split of a file is a `FilePart`. A format finds the records in
it, each with the bytes that a replacement would hold, and parses such bytes. What is wrong with a
record is a rejection of that record, never an exception that stops the rest.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from beam_jobs.corpus.dataset_metadata import FeatureNames
from beam_jobs.corpus.encodings import STATEFUL, UTF8, Encoding, decode, encoding_of_lines
from beam_jobs.corpus.labels import AnnotationReader
from beam_jobs.corpus.record import (
    WHOLE_FILE,
    Annotations,
    IgnoredPart,
    Locator,
    RawRecord,
    Rejection,
)
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.source_io import TOO_LARGE, check_size
from beam_jobs.corpus.streams import (
    Beginning,
    ByteStream,
    InMemory,
    RawStream,
    bytes_within,
    opened,
)
from beam_jobs.options import PreprocessOptions

INSPECTED_RECORDS = 16  # of a file, to see whether it has the columns at all
_INSPECTED_BYTES = 1 << 20  # 1 MiB that may be before the first record, such as a header


class FilePart(NamedTuple):
    """A file, a member of an archive, or a split of a file.

    Attributes:
        file_id: The record id of the file, or of the member.
        source: Opens it as it is stored, from its beginning; more than once.
        codec: How it is compressed; "" if it is not.
        read_all: Reads all of it at once, where it is not compressed; else None.
        path: The file itself, or the archive, for what is next to it.
        scratch: A path for a file, to be removed by who makes it.
        locator: Where its split of the file begins and ends, if the file was split.
        annotations: What its folders and the label table say about all its records.
        names: Reads what its folder says about the features of TFRecord files.
    """

    file_id: str
    source: Callable[[], RawStream]
    codec: str = ""
    read_all: Callable[[], bytes] | None = None
    path: bytes = b""
    scratch: Path = Path()
    locator: Locator = WHOLE_FILE
    annotations: Annotations = Annotations()
    names: Callable[[], FeatureNames] = FeatureNames

    def open(self) -> ByteStream:
        """Opens it from its beginning, decompressed."""
        return opened(self.source(), self.codec)

    def beginning(self, limit: int) -> FilePart:
        """The part as if it were cut after the first record of at most `limit` bytes, and a bit."""
        size = limit + _INSPECTED_BYTES
        return self._replace(source=lambda: Beginning(self.open(), size), codec="")


class FoundRecord(NamedTuple):
    """A record that was found, not parsed yet.

    Attributes:
        place: Its name below the file's in its record id; "" if the file is the record.
        data: Its bytes; a replacement is put in their place.
        context: What else is needed to parse them: column names, the other fields of the row.
        parsed: What finding has parsed of these very bytes; None for a replacement.
    """

    place: str
    data: bytes
    context: Any = None
    parsed: Any = None


class FoundRejection(NamedTuple):
    """A range of a file that is not a usable record.

    Attributes:
        place: As in FoundRecord.
        rejection: Why, with the bytes where they are at hand.
        context: As in FoundRecord, for a replacement.
    """

    place: str
    rejection: Rejection
    context: Any = None


# What a format finds; of an ignored part the record id is its place.
Found = FoundRecord | FoundRejection | IgnoredPart


class Split(NamedTuple):
    """A split of a file.

    Attributes:
        start, end, seek: As in Locator.
        bytes: Its size.
    """

    start: int
    end: int
    seek: int
    bytes: int


class Format(abc.ABC):
    """One file format; an instance belongs to one job.

    Args:
        options: The job.
        extractor: What the record type takes out of a record.

    Attributes:
        splits_bytes: Whether its splits are ranges of bytes, which are read from their start on:
            then files in several compressed frames are split, too.
        reads_to_split: Whether finding its splits reads the whole file, which is not done elsewhere
            than on a local disk.
    """

    splits_bytes = False
    reads_to_split = False

    def __init__(self, options: PreprocessOptions, extractor: FileExtractor) -> None:
        self.options = options
        self.extractor = extractor
        self.limit = extractor.limit
        self.text_form = extractor.text_form
        self.annotations = AnnotationReader(options)

    def find(self, part: FilePart) -> Iterator[Found]:
        """Every record of a part, in order; one that is the whole file, unless a format finds more.

        Raises:
            Rejection: The part cannot be read; only before anything was given.
            UnreadableError: An I/O error.
        """
        yield FoundRecord("", self.whole(part))

    def find_parsed(self, part: FilePart) -> Iterator[Found | RawRecord]:
        """As `find`, for a part without replacements: records may be parsed already, with their id.

        Raises:
            Rejection: As for `find`.
            UnreadableError: An I/O error.
        """
        return self.find(part)

    @abc.abstractmethod
    def parse(self, found: FoundRecord, part: FilePart) -> RawRecord:
        """The record in some bytes; its id is filled in by the caller.

        Raises:
            Rejection: There is none.
        """

    def splits(self, file: ByteStream, size: int) -> list[Split]:
        """Where a large file is split: a function of the file alone; one split is not to split.

        Args:
            file: At its beginning, decompressed.
            size: Its bytes.
        """
        return [Split(0, -1, 0, size)]

    def inspect(self, part: FilePart) -> list[dict[str, Any]]:
        """The first records of a file by column; empty if it has no columns.

        Raises:
            Rejection: It cannot be read.
        """
        return []

    def place(self, number: int) -> str:
        """The place of a record by its number, or by its first byte."""
        return f"{number:0{self.extractor.digits}d}"

    def after_damage(
        self, number: int, damage: Rejection, data: bytes | None, context: Any = None
    ) -> FoundRejection:
        """What follows damage, as one rejection.

        Args:
            number: Where it begins.
            damage: What is wrong.
            data: The beginning of a record that could be read of it.
            context: As in FoundRecord.
        """
        detail = f"from byte {number} on: {damage.detail}"
        kept = damage.data if data is None else data
        rejection = Rejection(damage.reason, detail, data=kept)
        return FoundRejection(self.place(number), rejection, context)

    def too_large(self, number: int, size: int, context: Any = None) -> FoundRejection:
        """A record that exceeds --max-record-bytes; its bytes are not kept."""
        detail = f"the record at {number} has {size} bytes, more than {self.limit}"
        return FoundRejection(self.place(number), Rejection(TOO_LARGE, detail), context)

    def whole(self, part: FilePart) -> bytes:
        """All bytes of a part.

        Raises:
            Rejection: They are more than a record may have, which is checked before they are
                decompressed where the size is declared; or there is damage, with what could be
                read.
        """
        if part.read_all is not None:
            return part.read_all()
        with part.open() as file:
            data = file.up_to(self.limit)
            check_size(len(data), self.limit)
            if file.damage is not None:
                raise file.damage.with_data(data)
        return data

    def open_lines(self, part: FilePart, encoding: str) -> tuple[ByteStream, Encoding]:
        """A part whose lines are read one by one, and their encoding.

        A file in an encoding with a state is converted to UTF-8 as a whole: what a line means may
        depend on the lines before it.

        Args:
            part: The part; its rejection has all its bytes.
            encoding: The value of --encoding.

        Raises:
            Rejection: The encoding is not clear, or the bytes are not valid in it.
        """
        file = part.open()
        try:
            known = encoding_of_lines(file, encoding)
            if known.name not in STATEFUL:
                return file, known
            text, _ = decode(self.whole(part), known.name)
        except Rejection as rejection:
            file.close()
            raise rejection.with_data(self.readable_bytes(part)) from None
        file.close()
        return ByteStream(InMemory(text.encode())), UTF8._replace(source=known.name)

    def readable_bytes(self, part: FilePart) -> bytes | None:
        """What can be read of a part that is rejected; None if it is too large to be kept."""
        return bytes_within(part.open(), self.limit)


def first_records(found: Iterable[Found]) -> Iterator[FoundRecord]:
    """The records among the first that were found in a file."""
    first = itertools.islice(found, INSPECTED_RECORDS)
    return (one for one in first if isinstance(one, FoundRecord))
