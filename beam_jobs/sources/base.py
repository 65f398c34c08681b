"""What a source is: a deterministic listing of the records of a corpus, and how to read them."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from beam_jobs.corpus.record import Rejection
from beam_jobs.options import PreprocessOptions

if TYPE_CHECKING:
    from beam_jobs.documents.reading import ReadDocument

# A larger record is refused unread, and not copied to quarantine either: a worker would hold it.
MAX_RECORD_BYTES = 512 << 20  # 512 MiB
_BLOCK_BYTES = 1 << 20  # 1 MiB a system call


class Item(NamedTuple):
    """One record of the corpus, not read yet.

    Attributes:
        record_id: The path relative to the source root (behind the root's name if there are
            several), plus member or row; the same wherever the corpus lies.
        path: The file to read it from, as the file system spells it.
        label: The class name, or None where there is none or reading the record tells.
        size: Bytes of the record, as far as listing can tell: units are cut by it.
        mtime_ns: Time of last change in nanoseconds; part of the unit's content identity.
        refused: Why the record cannot be used, as "reason: detail", when the listing alone tells;
            "" otherwise.
        locator: Where in the file it lies, in words of its source; "" is the whole file.
        block: Neighbours with the same number other than 0 stay in one unit, since reading one
            means reading all (a row group, a compressed archive).
        group: What --group-by says of it, or None.
        split: The split it was given, or None.
        repaired: A file with the bytes to use in place of its own, or b"".
    """

    record_id: str
    path: bytes
    label: str | None
    size: int
    mtime_ns: int
    refused: str = ""
    locator: str = ""
    block: int = 0
    group: str | None = None
    split: str | None = None
    repaired: bytes = b""


class Raw(NamedTuple):
    """A record that was read.

    Attributes:
        data: Its bytes.
        label: As in Item; where reading told more than listing, this holds it.
        group: Likewise.
        split: Likewise.
    """

    data: bytes
    label: str | None = None
    group: str | None = None
    split: str | None = None


# Reads one record of the unit it was opened for; raises Rejection, or OSError.
ReadRecord = Callable[[Item], Raw]


class Source(abc.ABC):
    """One way in which a corpus lies on disk; an instance belongs to one job."""

    def __init__(self, options: PreprocessOptions) -> None:
        self.options = options

    @abc.abstractmethod
    def items(self, roots: Sequence[Path], on_ignored: Callable[[str], None]) -> Iterator[Item]:
        """Every record, in an order that depends on names alone.

        Args:
            roots: What the user named, absolute.
            on_ignored: Called with the id of whatever is left out on purpose (hidden files).

        Raises:
            InputError: A root is missing or of the wrong kind.
        """

    def open(self, items: Sequence[Item], scratch: Path) -> AbstractContextManager[ReadRecord]:
        """Opens the records of one unit for reading in any order.

        Args:
            items: All records of the unit, in listing order.
            scratch: A path for a file or folder of its own, to be removed when it is closed.
        """
        return nullcontext(read_whole_file)


class BatchSource(Source):
    """A source whose items hold many records each, which only reading tells."""

    @abc.abstractmethod
    def open_documents(
        self, items: Sequence[Item], scratch: Path
    ) -> AbstractContextManager[Callable[[Item], Iterator[ReadDocument]]]:
        """Opens the items of one unit; what it gives reads the documents of one, in order.

        Args:
            items: All items of the unit, in listing order.
            scratch: As in `open`.
        """


def read_whole_file(item: Item) -> Raw:
    """A record that is a file.

    Raises:
        Rejection: It is too large.
        OSError: It cannot be read.
    """
    return Raw(read_file(item.path, item.size), item.label, item.group, item.split)


def read_file(path: bytes, size: int) -> bytes:
    """The whole file, with three system calls where `open` and `read` make seven.

    Every system call gives up the interpreter's lock, and with several threads taking it back
    costs more than the call.

    Args:
        path: The file.
        size: Its bytes, as listed.

    Raises:
        Rejection: It is too large.
        OSError: It cannot be read.
    """
    check_size(size)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, size + 1)
        # It has changed since it was listed, or came in pieces.
        while len(data) != size and len(data) <= MAX_RECORD_BYTES:
            more = os.read(descriptor, _BLOCK_BYTES)
            if not more:
                break
            data += more
    finally:
        os.close(descriptor)
    check_size(len(data))
    return data


def check_size(size: int) -> None:
    """Returns if a record may be held in memory.

    Raises:
        Rejection: It may not.
    """
    if size > MAX_RECORD_BYTES:
        raise Rejection(
            "file-too-large", f"the record has {size} bytes, more than {MAX_RECORD_BYTES}"
        )
