"""The one way to files of corpora, builds and shard sets, by path or URL.

Everything above this package names files by a place (`Path` or `Url`) and opens them here, so a
kind of storage is added in one class and one line of `STORAGES`. The interface asks for what disks
and object stores both do well:

- A file appears whole under its name or not at all (`create`). There is no rename and no append.
- `if_absent` creates a file only if there is none; it takes the place of a lock.
- Ranges are read many at a time (`read_ranges`, `ahead`, `in_parallel`), since a request to an
  object store takes 10 to 100 ms. Memory maps are for local files alone (`open_arrow`,
  `local_path`).
- Folders are listed one level at a time, or whole (`list_tree`), with size and time of change,
  without a request per file.

What a storage raises: FileNotFoundError where there is no file, FileExistsError for `if_absent`,
and OSError with `strerror` and `filename` for everything else.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast
from urllib.parse import unquote, urlsplit

from foundation.errors import UsageError
from foundation.storage import hub_client
from foundation.storage.base import FILE as FILE
from foundation.storage.base import FOLDER as FOLDER
from foundation.storage.base import OTHER as OTHER
from foundation.storage.base import UNKNOWN as UNKNOWN
from foundation.storage.base import WEB, Item, names_in
from foundation.storage.base import Entry as Entry
from foundation.storage.base import File as File
from foundation.storage.base import Place as Place
from foundation.storage.base import RandomAccessFile as RandomAccessFile
from foundation.storage.base import Range as Range
from foundation.storage.base import Stat as Stat
from foundation.storage.base import Storage as Storage
from foundation.storage.base import Url as Url
from foundation.storage.hdfs import HdfsStorage
from foundation.storage.http import WebStorage
from foundation.storage.http import refuse_to_write as refuse_to_write
from foundation.storage.hub import HubStorage
from foundation.storage.hub_client import commit_of as commit_of
from foundation.storage.local import LocalStorage
from foundation.storage.object_file import Answer
from foundation.storage.object_stores import check_url
from foundation.storage.objects import ObjectStorage
from foundation.storage.prefetch import Prefetched
from foundation.storage.traffic import Traffic as Traffic
from foundation.storage.traffic import traffic as traffic

if TYPE_CHECKING:
    import pyarrow as pa

Result = TypeVar("Result")

_COPY_BYTES = 4 << 20  # 4 MiB
_FETCHED = 4  # files that are copied at a time; each is read in many requests
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/*)")


def _requested(url: Url, offset: int, size: int) -> Answer:
    return cast(ObjectStorage, storage_of(url)).request(url, offset, size)


HUB = "hf://"
# URLs at which nothing can be written.
READ_ONLY = (HUB, *(f"{scheme}://" for scheme in WEB))

LOCAL = LocalStorage()
_prefetched = Prefetched(_requested)
_OBJECTS = ObjectStorage(_prefetched)

# By the scheme of a URL; a path has none.
STORAGES: dict[str, Storage] = {
    "": LOCAL,
    "file": LOCAL,
    "gs": _OBJECTS,
    "s3": _OBJECTS,
    "abfs": _OBJECTS,
    "abfss": _OBJECTS,
    "hdfs": HdfsStorage(),
    "hf": HubStorage(_prefetched),
    **dict.fromkeys(WEB, WebStorage(_prefetched)),
}


def place_of(text: str | os.PathLike[str] | Url) -> Place:
    """The place that a path or a URL names; file:///folder is a path.

    Raises:
        UsageError: There is no storage for the scheme, the text begins like a URL and is none, a
            file:// URL names another machine, or a URL has no bucket, or credentials in it.
    """
    if isinstance(text, Url):
        return text
    # pathlib makes s3:/bucket of s3://bucket.
    match = _SCHEME.match(name := os.fspath(text))
    if match is None:
        return Path(text)
    scheme, slashes = match["scheme"].lower(), match["slashes"]
    if len(slashes) < 2:
        if slashes or scheme in STORAGES:
            raise _broken_url(name, scheme, name[match.end() :])
        return Path(text)  # a name with a colon
    _storage(scheme, name)
    if scheme != "file":
        check_url(name, scheme)
        return Url(f"{scheme}{name[len(scheme) :]}".rstrip("/"))
    parts = urlsplit(name)
    if parts.netloc not in ("", "localhost"):
        raise UsageError(
            f"{text} names the host {parts.netloc!r}, but file:// is for this machine. Write "
            "file:///path, or the path alone."
        )
    return Path(unquote(parts.path))


def _broken_url(text: str, scheme: str, rest: str) -> UsageError:
    """The message for a text that begins with a scheme and is no URL, such as s3:/bucket."""
    remedy = ""
    if scheme in STORAGES:
        begin = "file:///" if scheme == "file" else f"{scheme}://"
        remedy = f"Write {begin}{rest or 'BUCKET/FOLDER'}. "
    return UsageError(
        f"{text} begins like a URL, which has '://' behind its scheme. {remedy}"
        f"A local path of this name is {os.path.abspath(text)}."
    )


def local_place_of(text: str | os.PathLike[str]) -> Path:
    """The local path that a text names, for what cannot be in an object store.

    Raises:
        UsageError: It is a URL, or begins like one.
    """
    match = _SCHEME.match(os.fspath(text))
    scheme = match["scheme"].lower() if match else ""
    if match and scheme != "file" and (match["slashes"] or scheme in STORAGES):
        raise UsageError(
            f"{text} is a URL, or begins like one, and this can only be a local file or folder. "
            f"Pass a path; a local one of this name is {os.path.abspath(text)}."
        )
    return cast(Path, place_of(text))


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


def unpinned(texts: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """(paths and URLs without revisions, commit of each dataset at hf:// by its URL)."""
    names, commits = [], {}
    for text in texts:
        if text.startswith(HUB):
            path = hub_client.parse(text).pinned
            commits[path._replace(path="").url] = path.revision
            text = path.url
        names.append(text)
    return names, commits


def is_fixed(place: Place) -> bool:
    """Whether what is there can never change: it is at a commit."""
    return isinstance(place, Url) and place.text.startswith(HUB)


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


def read_many(ranges: Iterable[Range]) -> Iterator[bytes]:
    """The bytes of ranges of any files that are not local, in the order given.

    Of an object store, 32 requests with 32 MiB are in flight.
    """
    for store, own in itertools.groupby(ranges, key=lambda one: storage_of(one.url)):
        if isinstance(store, ObjectStorage):
            yield from store.read_many(own)
            continue
        for url, same in itertools.groupby(own, key=lambda one: one.url):
            yield from store.read_ranges(url, ((one.offset, one.size) for one in same))


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
    import pyarrow as pa  # not for 'shardmill preprocess --help'

    path = local_path(place)
    if path is None:
        return pa.PythonFile(open_input(place), "r")
    return pa.memory_map(str(path)) if mapped else pa.OSFile(str(path), "rb")


def absolute(text: str) -> str:
    """A path or URL as every process understands it, whatever its working directory.

    That of a dataset at hf:// gets the commit that its branch names.

    Raises:
        UsageError: See `place_of`.
        InputError: There is no such dataset or revision, or it may not be read.
    """
    place = place_of(text)
    if isinstance(place, Url) and place.text.startswith(HUB):
        return hub_client.pinned(place.text)
    return os.path.abspath(place) if isinstance(place, Path) else str(place)


def resolved(place: Place) -> Place:
    """A path without symbolic links; a URL as it is."""
    return place.resolve() if isinstance(place, Path) else place


def exists(place: Place) -> bool:
    """Whether there is a file, a folder, or anything else."""
    if isinstance(place, Path):
        return LOCAL.exists(place)
    return stat(place) is not None or is_folder(place)


def overlap(one: Place, two: Place) -> bool:
    """Whether one place is the other or contains it."""
    first, second = parts(resolved(one)), parts(resolved(two))
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def parts(place: Place) -> tuple[str, ...]:
    """The names on the way to an absolute place, such as ("data", "set"), ("s3:", "b", "set")."""
    if isinstance(place, Path):
        return place.parts[1:]
    return place.text.partition("//")[0], *names_in(place.text)


def split_pattern(pattern: Url) -> tuple[Place, list[str]]:
    """The bucket, or the repository, of a pattern, and the names below it."""
    names = pattern.text.split("/")
    begin = 5 if pattern.text.startswith(HUB) else 3
    return place_of("/".join(names[:begin])), names[begin:]


def range_of(file: File, offset: int, size: int) -> Range | None:
    """A range for `ahead`; None if the file is not in an object store."""
    if isinstance(file, Url) and isinstance(storage_of(file), ObjectStorage):
        return Range(file, offset, size)
    return None


def ahead(items: Iterable[Item], range_of: Callable[[Item], Range | None]) -> Iterator[Item]:
    """Yields items of work while what the next ones will read is on its way.

    At most 32 requests with 32 MiB are in flight. Reads find the bytes in memory until the item
    after theirs is asked for.

    Args:
        items: In the order in which they are used.
        range_of: What will be read for an item, from `range_of`.
    """
    return _prefetched.ahead(items, range_of)


def in_parallel(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    remote: bool,
    at_a_time: int = 16,
) -> Iterator[Result]:
    """The results in order; where each one is a request that takes long, of several at a time.

    Args:
        function: Reads a little, or lists a folder.
        items: What it is called with; taken as results are.
        remote: Whether it takes long.
        at_a_time: Number of threads, which this call has to itself.
    """
    if not remote:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(at_a_time, thread_name_prefix="in-parallel")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > at_a_time:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def stat(place: Place) -> Stat | None:
    """Size and time of change; None if there is no regular file."""
    return storage_of(place).stat(place)


def is_folder(place: Place) -> bool:
    """Whether there is a folder, or a symbolic link to one."""
    return storage_of(place).is_folder(place)


def list_folder(place: Place) -> Iterator[Entry]:
    """What is in a folder, one level deep, in no order."""
    return storage_of(place).list_folder(place)


def list_tree(place: Place) -> Iterator[tuple[str, Stat]]:
    """The relative names of all files below a folder at any depth, in no order.

    Symbolic links and what is not a regular file are left out.
    """
    return storage_of(place).list_tree(place)


def fetch_tree(place: Place, folder: Path, left_out: Collection[str]) -> list[str]:
    """Copies the files below a folder to a local one; returns their relative names.

    Args:
        place: The folder.
        folder: Where the files get the same names; made if there are any.
        left_out: Names of files and folders, at any depth, that are not copied.
    """

    def fetch(name: str) -> str:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_input(place / name) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, _COPY_BYTES)
        return name

    names = (name for name, _ in list_tree(place))
    wanted = (name for name in names if not any(part in left_out for part in name.split("/")))
    return list(in_parallel(fetch, wanted, remote=True, at_a_time=_FETCHED))


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
        scratch: Local folder, such as one that is cleared after a crash, where a file waits for its
            name, or for its upload. For a local file it is on the same file system. None is the
            folder of a local file, or that of the system for temporary files.
    """
    return storage_of(place).create(place, durable=durable, if_absent=if_absent, scratch=scratch)


@contextlib.contextmanager
def create_arrow(
    place: Place, *, durable: bool = False, if_absent: bool = False, scratch: Path | None = None
) -> Iterator[pa.NativeFile]:
    """`create` for what Arrow writes: to a local file without the interpreter's lock."""
    import pyarrow as pa  # not for 'shardmill preprocess --help'

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
