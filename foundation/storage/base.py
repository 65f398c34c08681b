"""What a kind of storage is: places, what is found there, and the operations on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote


@dataclasses.dataclass(frozen=True)
class Url:
    """A place that is not a local path, such as gs://bucket/folder; `/` joins, as of a Path."""

    text: str

    def __truediv__(self, name: str) -> Url:
        """The file or folder of this relative name in here."""
        return Url(f"{self.text.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part, as a file or folder on a disk is called."""
        return names_in(self.text)[-1]

    @property
    def parent(self) -> Url:
        """The folder that this is in."""
        return Url(self.text.rstrip("/").rpartition("/")[0])

    def __str__(self) -> str:
        return self.text


WEB = ("http", "https")  # schemes of web servers


def names_in(url: str) -> list[str]:
    """The names on the way to a URL, behind its scheme, such as ["bucket", "folder"].

    They decide the ids of records, so they are those of a copy on a disk: a dataset has no
    revision, and what HTTP writes as %20 is a space.
    """
    scheme, _, rest = url.partition("://")
    names = rest.rstrip("/").split("/")
    if scheme == "hf" and len(names) > 2:
        names[2] = names[2].partition("@")[0]
    return [unquote(name) for name in names] if scheme in WEB else names


Place: TypeAlias = Path | Url

# Where files are read by the million, a local path as the operating system spells it will do.
File: TypeAlias = Path | Url | bytes


Item = TypeVar("Item")


class Range(NamedTuple):
    """A byte range of a file that is not local.

    Attributes:
        url: The file.
        offset: First byte.
        size: Number of bytes.
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
        name: Name without the folder; bytes that are no UTF-8 are escaped, as by `os.fsdecode`.
        kind: FILE, FOLDER, OTHER or UNKNOWN.
        stat: Size and time of the file; zeros for UNKNOWN.
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
    """One kind of storage; the functions of this package describe the arguments of its methods.

    Methods are called from many threads at a time.
    """

    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Reads byte ranges of a file, in the order given."""

    def read_file(self, place: File, size: int, limit: int) -> bytes:
        """Reads a whole file whose size was listed."""

    def open_input(self, place: Place) -> BinaryIO:
        """Opens a file to read, buffered and seekable."""

    def open_random(self, place: File) -> RandomAccessFile:
        """Opens a file to read at any place, without a buffer."""

    def stat(self, place: Place) -> Stat | None:
        """Returns size and time of change; None if there is no regular file."""

    def is_folder(self, place: Place) -> bool:
        """Whether there is a folder, or a symbolic link to one."""

    def list_folder(self, place: Place) -> Iterator[Entry]:
        """Lists what is in a folder, one level deep, in no order."""

    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        """Lists the relative names of all files below a folder, in no order."""

    def make_folder(self, place: Place) -> None:
        """Makes a folder and those above it."""

    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> AbstractContextManager[BinaryIO]:
        """Creates a file, which gets its name, whole, at the end of the block."""

    def delete(self, place: Place) -> None:
        """Deletes a file, if there is one."""

    def delete_tree(self, place: Place) -> None:
        """Deletes a folder with all that is in it, as far as possible."""
