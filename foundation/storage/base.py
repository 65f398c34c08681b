"""What a kind of storage is: places, what is found there, and the operations on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, TypeVar


@dataclasses.dataclass(frozen=True)
class Url:
    """A place that is not a local path, such as gs://bucket/folder; `/` joins, as of a Path."""

    text: str

    def __truediv__(self, name: str) -> Url:
        """The file or folder of this relative name in here."""
        return Url(f"{self.text.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Url:
        """The folder that this is in."""
        return Url(self.text.rstrip("/").rpartition("/")[0])

    def __str__(self) -> str:
        return self.text


Place: TypeAlias = Path | Url

# Where files are read by the million, a local path as the operating system spells it will do.
File: TypeAlias = Path | Url | bytes


Item = TypeVar("Item")


class Range(NamedTuple):
    """A byte range of a file that is not local.

    Attributes:
        url: The file.
        offset: First byte.
        size: How many.
    """

    url: Url
    offset: int
    size: int


class Stat(NamedTuple):
    """Size in bytes and time of the last change in nanoseconds since the epoch, an int64."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, size: int, mtime_ns: int) -> Stat:
        """With any time: before 1677 and after 2262 modulo 2**64 ns, so that times stay different.

        File systems have such times, by a broken clock or an archive.
        """
        return cls(size, (mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63))


# Kinds of entries; a symbolic link counts as what it leads to. OTHER is a device, a pipe, a socket
# or a link that leads nowhere; UNKNOWN is listed, but cannot be looked at.
FILE, FOLDER, OTHER, UNKNOWN = range(4)


class Entry(NamedTuple):
    """What a folder holds under a name.

    Attributes:
        name: Without the folder; bytes that are no UTF-8 are escaped, as by `os.fsdecode`.
        kind: FILE, FOLDER, OTHER or UNKNOWN.
        stat: Of the file; zeros for UNKNOWN.
        is_link: Whether it is a symbolic link.
    """

    name: str
    kind: int
    stat: Stat
    is_link: bool = False


class RandomAccessFile(Protocol):
    """An open file that is read at any place, by one thread at a time."""

    @property
    def size(self) -> int:
        """Bytes of the file."""

    def read_at(self, offset: int, size: int) -> bytes:
        """At least one and at most `size` bytes from an offset; none at the end of the file."""

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """`read_at` into a buffer; returns the number of bytes."""

    def close(self) -> None:
        """Closes the file."""


class Storage(Protocol):
    """One kind of storage; the functions of this package say what each method does.

    Methods are called from many threads at a time.
    """

    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """See `read_ranges`."""

    def read_file(self, place: File, size: int, limit: int) -> bytes:
        """See `read_file`."""

    def open_input(self, place: Place) -> BinaryIO:
        """See `open_input`."""

    def open_random(self, place: File) -> RandomAccessFile:
        """See `open_random`."""

    def stat(self, place: Place) -> Stat | None:
        """See `stat`."""

    def is_folder(self, place: Place) -> bool:
        """See `is_folder`."""

    def list_folder(self, place: Place) -> Iterator[Entry]:
        """See `list_folder`."""

    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        """See `list_tree`."""

    def make_folder(self, place: Place) -> None:
        """See `make_folder`."""

    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> AbstractContextManager[BinaryIO]:
        """See `create`."""

    def delete(self, place: Place) -> None:
        """See `delete`."""

    def delete_tree(self, place: Place) -> None:
        """See `delete_tree`."""
