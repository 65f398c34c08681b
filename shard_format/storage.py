"""The one way to files of corpora, builds and shard sets, by path or URL.

Everything above this module names files by a place (`Path` or `Url`) and opens them here, so a
kind of storage is added in one class and one line of `STORAGES`. The interface asks for what disks
and object stores both do well:

- A file appears whole under its name or not at all (`create`). There is no rename and no append.
- `if_absent` creates a file only if there is none; it takes the place of a lock.
- Ranges are read many at a time (`read_ranges`), since a request to an object store takes
  10 to 100 ms. Memory maps are for local files alone (`open_arrow`, `local_path`).
- Folders are listed one level at a time, with size and time of change, without a request per file.

What a storage raises: FileNotFoundError where there is no file, FileExistsError for `if_absent`,
and OSError with `strerror` and `filename` for everything else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import stat as modes
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from shard_format.errors import UsageError

_BLOCK_BYTES = 1 << 20  # 1 MiB per system call
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")


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


class Stat(NamedTuple):
    """Size in bytes and time of the last change in nanoseconds since the epoch."""

    size: int
    mtime_ns: int


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
    """One kind of storage; the functions of this module say what each method does.

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


class LocalStorage:
    """What the operating system has mounted: a disk, NFS, a bucket by FUSE."""

    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """See `Storage`. One open file; the page cache reads ahead."""
        with _path(place).open("rb", buffering=0) as file:
            for offset, size in ranges:
                file.seek(offset)
                yield _read_fully(file, size)

    def read_file(self, place: File, size: int, limit: int) -> bytes:
        """See `Storage`. Three system calls, where `open` and `read` make seven.

        Every system call gives up the interpreter's lock, and with several threads taking it back
        costs more than the call.
        """
        descriptor = os.open(_local(place), os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(descriptor, size + 1)
            while len(data) != size and len(data) <= limit:
                more = os.read(descriptor, _BLOCK_BYTES)
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(descriptor)

    def open_input(self, place: Place) -> BinaryIO:
        """See `Storage`."""
        return _path(place).open("rb")

    def open_random(self, place: File) -> RandomAccessFile:
        """See `Storage`."""
        return _LocalFile(_local(place))

    def stat(self, place: Place) -> Stat | None:
        """See `Storage`."""
        try:
            found = _path(place).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stat(found.st_size, found.st_mtime_ns) if modes.S_ISREG(found.st_mode) else None

    def is_folder(self, place: Place) -> bool:
        """See `Storage`."""
        return _path(place).is_dir()

    def list_folder(self, place: Place) -> Iterator[Entry]:
        """See `Storage`."""
        with os.scandir(_path(place)) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                try:
                    found = entry.stat()
                except OSError:
                    kind = OTHER if is_link else UNKNOWN
                    yield Entry(entry.name, kind, Stat(0, 0), is_link)
                else:
                    status = Stat(found.st_size, found.st_mtime_ns)
                    yield Entry(entry.name, _kind(found.st_mode), status, is_link)

    def make_folder(self, place: Place) -> None:
        """See `Storage`."""
        _path(place).mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> Iterator[BinaryIO]:
        """See `Storage`. The file is written under another name, then renamed."""
        final = _path(place)
        temporary = (scratch or final.parent) / f".{uuid.uuid4().hex}.part"
        try:
            with temporary.open("xb", buffering=_BLOCK_BYTES) as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            if if_absent:
                os.link(temporary, final)  # unlike a rename, it never replaces a file
                os.unlink(temporary)
            else:
                os.replace(temporary, final)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            _flush_names(final.parent)

    def delete(self, place: Place) -> None:
        """See `Storage`."""
        _path(place).unlink(missing_ok=True)

    def delete_tree(self, place: Place) -> None:
        """See `Storage`."""
        shutil.rmtree(_path(place), ignore_errors=True)


class _LocalFile:
    """See RandomAccessFile."""

    def __init__(self, path: Path | bytes) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def size(self) -> int:
        """See RandomAccessFile."""
        return os.fstat(self._descriptor).st_size

    def read_at(self, offset: int, size: int) -> bytes:
        """See RandomAccessFile."""
        return os.pread(self._descriptor, size, offset)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """See RandomAccessFile."""
        return os.preadv(self._descriptor, [buffer], offset)

    def close(self) -> None:
        """See RandomAccessFile."""
        os.close(self._descriptor)


def _kind(mode: int) -> int:
    if modes.S_ISREG(mode):
        return FILE
    return FOLDER if modes.S_ISDIR(mode) else OTHER


def _path(place: Place) -> Path:
    return cast(Path, place)  # `storage_of` gives no Url to local storage


def _local(place: File) -> Path | bytes:
    return cast("Path | bytes", place)


def _read_fully(file: BinaryIO, size: int) -> bytes:
    """The next `size` bytes, fewer at the end of the file only: a read stops at 2 GiB or sooner."""
    data = file.read(size)
    if len(data) == size:
        return data
    parts = [data]
    while data and (size := size - len(data)):
        data = file.read(size)
        parts.append(data)
    return b"".join(parts)


def _flush_names(folder: Path) -> None:
    """Has the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCAL = LocalStorage()

# By the scheme of a URL; a path has none.
STORAGES: dict[str, Storage] = {"": LOCAL, "file": LOCAL}


def place_of(text: str | os.PathLike[str]) -> Place:
    """The place that a path or a URL names; file:///folder is a path.

    Raises:
        UsageError: There is no storage for the scheme, or a file:// URL names another machine.
    """
    if not isinstance(text, str) or (match := _URL.match(text)) is None:
        return Path(text)
    _storage(match["scheme"].lower(), text)
    if match["scheme"].lower() != "file":
        return Url(text)
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(
            f"{text} names the host {parts.netloc!r}, but file:// is for this machine. Write "
            "file:///path, or the path alone."
        )
    return Path(unquote(parts.path))


def storage_of(place: File) -> Storage:
    """The storage that a place is in.

    Raises:
        UsageError: There is none for the scheme.
    """
    if not isinstance(place, Url):
        return LOCAL
    return _storage(place.text.partition("://")[0].lower(), place.text)


def _storage(scheme: str, text: str) -> Storage:
    if scheme not in STORAGES:
        known = ", ".join(f"{name}://" for name in STORAGES if name)
        raise UsageError(
            f"No storage for {scheme}:// in {text}. Use a path, or a URL that begins with {known}."
        )
    return STORAGES[scheme]


def local_path(place: Place) -> Path | None:
    """The path of a local file; None for all others."""
    return place if isinstance(place, Path) else None


def read_bytes(place: Place) -> bytes:
    """The content of a whole file."""
    with open_input(place) as file:
        return file.read()


def read_file(place: File, size: int, limit: int) -> bytes:
    """The content of a whole file whose size was listed: the fastest way to a small file.

    Args:
        place: The file.
        size: Its bytes, as listed; it may have changed since.
        limit: A file that turns out longer is not read to its end, but past this many bytes.
    """
    return storage_of(place).read_file(place, size, limit)


def read_range(place: Place, offset: int, size: int) -> bytes:
    """The bytes [offset, offset + size) of a file; fewer where it ends before."""
    return next(iter(read_ranges(place, [(offset, size)])))


def read_ranges(place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """The bytes of some ranges (offset, size) of a file, in the order given.

    A storage with latency has several of them in flight.
    """
    return storage_of(place).read_ranges(place, ranges)


def open_input(place: Place) -> BinaryIO:
    """A file to read, buffered and seekable."""
    return storage_of(place).open_input(place)


def open_random(place: File) -> RandomAccessFile:
    """A file to read at any place, without a buffer."""
    return storage_of(place).open_random(place)


def open_arrow(place: Place, *, mapped: bool = True) -> pa.NativeFile:
    """A file for Arrow to read.

    Args:
        place: The file.
        mapped: Whether a local file is memory-mapped: columns that are not used are not read then,
            but large values that are used once stay resident.
    """
    path = local_path(place)
    if path is None:
        return pa.PythonFile(open_input(place), "r")
    return pa.memory_map(str(path)) if mapped else pa.OSFile(str(path), "rb")


def stat(place: Place) -> Stat | None:
    """Size and time of change; None if there is no regular file."""
    return storage_of(place).stat(place)


def is_folder(place: Place) -> bool:
    """Whether there is a folder, or a symbolic link to one."""
    return storage_of(place).is_folder(place)


def list_folder(place: Place) -> Iterator[Entry]:
    """What is in a folder, one level deep, in no order."""
    return storage_of(place).list_folder(place)


def make_folder(place: Place) -> None:
    """Makes a folder and those above it; an object store has none to make."""
    storage_of(place).make_folder(place)


def create(
    place: Place, *, durable: bool = False, if_absent: bool = False, scratch: Path | None = None
) -> AbstractContextManager[BinaryIO]:
    """A file to write, which gets its name, whole, when the block ends without an exception.

    Args:
        place: Where; a file that is there is replaced.
        durable: Whether content and name survive a power cut as soon as the block has ended.
        if_absent: Do not replace a file: FileExistsError at the end of the block if there is one.
        scratch: Folder on the same file system where a local file waits for its name, such as one
            that is cleared after a crash; the folder of `place` if None. Object stores need none.
    """
    return storage_of(place).create(place, durable=durable, if_absent=if_absent, scratch=scratch)


@contextlib.contextmanager
def create_arrow(
    place: Place, *, durable: bool = False, if_absent: bool = False, scratch: Path | None = None
) -> Iterator[pa.NativeFile]:
    """`create` for what Arrow writes: to a local file without the interpreter's lock."""
    with create(place, durable=durable, if_absent=if_absent, scratch=scratch) as file:
        if local_path(place) is None:
            yield pa.PythonFile(file, "w")
            return
        with pa.OSFile(file.name, "wb") as sink:
            yield sink


def write_bytes(
    place: Place,
    data: bytes,
    *,
    durable: bool = False,
    if_absent: bool = False,
    scratch: Path | None = None,
) -> None:
    """Writes a whole file; see `create`."""
    with create(place, durable=durable, if_absent=if_absent, scratch=scratch) as file:
        file.write(data)


def delete(place: Place) -> None:
    """Deletes a file, if there is one."""
    storage_of(place).delete(place)


def delete_tree(place: Place) -> None:
    """Deletes a folder with all that is in it, as far as possible."""
    storage_of(place).delete_tree(place)
