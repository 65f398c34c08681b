"""The Hadoop file system: hdfs://, with or without a name node in the URL.

A file there is seen while it is written. So it is written under another name and renamed, which is
atomic and does not replace a file unless asked to.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from typing_extensions import override

from foundation.errors import UsageError
from foundation.storage.base import (
    FILE,
    FOLDER,
    Entry,
    File,
    Place,
    RandomAccessFile,
    Stat,
    Storage,
    Url,
)
from foundation.storage.in_flight import in_order, start
from foundation.storage.object_file import Answer, Block, ObjectFile, buffered, spooled

_COPY_BYTES = 4 << 20  # 4 MiB
_UNFINISHED = ".part"
_STALE_SECONDS = 3600  # an unfinished file that is older was left by a killed writer


class HdfsStorage(Storage):
    """Files in the Hadoop Distributed File System."""

    @override
    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        with _readable_errors(place):
            reader = _client(_url(place)).read(_path(place))
        return in_order(
            (size, partial(_read, place, reader, offset, size)) for offset, size in ranges
        )

    @override
    def read_file(self, place: File, size: int, limit: int) -> bytes:
        return next(self.read_ranges(_url(place), [(0, min(size, limit) + 1)]))

    @override
    def open_input(self, place: Place) -> BinaryIO:
        return cast(BinaryIO, buffered(self.open_random(place)))

    @override
    def open_random(self, place: File) -> RandomAccessFile:
        url = _url(place)
        with _readable_errors(url):
            reader = _client(url).read(_path(url))

        def request(offset: int, size: int) -> Block:
            def answer() -> Answer:
                return Answer(_read(url, reader, offset, size), len(reader))

            return Block(offset, offset + size, start(answer))

        return ObjectFile(request, reader.__len__)

    @override
    def stat(self, place: Place) -> Stat | None:
        status = _status(_url(place))
        return None if status is None or status.isdir else _stat(status)

    @override
    def is_folder(self, place: Place) -> bool:
        status = _status(_url(place))
        return status is not None and bool(status.isdir)

    @override
    def list_folder(self, place: Place) -> Iterator[Entry]:
        with _readable_errors(place):
            for status in _client(_url(place)).list_status(_path(place), recursive=False):
                name = status.path.rpartition("/")[2]
                if not _is_unfinished(name):
                    yield Entry(name, FOLDER if status.isdir else FILE, _stat(status))

    @override
    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        skipped = len(_path(place).rstrip("/")) + 1
        with _readable_errors(place):
            for status in _client(_url(place)).list_status(_path(place), recursive=True):
                name = status.path[skipped:]
                if not status.isdir and not _is_unfinished(name):
                    yield name, _stat(status)

    @override
    def make_folder(self, place: Place) -> None:
        """What writers that were killed long ago left in it is deleted."""
        url = _url(place)
        with _readable_errors(url):
            client = _client(url)
            client.mkdirs(_path(url), create_parent=True)
            for status in client.list_status(_path(url), recursive=False):
                if _is_unfinished(status.path) and _age(status) > _STALE_SECONDS:
                    client.delete(status.path, recursive=False)

    @override
    @contextlib.contextmanager
    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> Iterator[BinaryIO]:
        """The file waits on this machine until it is whole."""
        with spooled(scratch) as file:
            yield file
            file.seek(0)
            start(partial(_write, _url(place), file, durable, if_absent)).result()

    @override
    def delete(self, place: Place) -> None:
        with contextlib.suppress(FileNotFoundError), _readable_errors(place):
            _client(_url(place)).delete(_path(place), recursive=False)

    @override
    def delete_tree(self, place: Place) -> None:
        with contextlib.suppress(FileNotFoundError), _readable_errors(place):
            _client(_url(place)).delete(_path(place), recursive=True)


def _write(url: Url, file: BinaryIO, durable: bool, if_absent: bool) -> None:
    """Writes a file under another name, and renames it."""
    client, final = _client(url), _path(url)
    written = f"{final.rpartition('/')[0]}/.{uuid.uuid4().hex}{_UNFINISHED}"
    try:
        with _readable_errors(url):
            with client.create(written) as sink:
                shutil.copyfileobj(file, sink, _COPY_BYTES)
                if durable:
                    sink.hsync()
            client.rename(written, final, overwrite=not if_absent)
    except BaseException:
        with contextlib.suppress(Exception):
            client.delete(written, recursive=False)
        raise


def _read(place: Place, reader: Any, offset: int, size: int) -> bytes:
    left = max(0, min(size, len(reader) - offset))
    with _readable_errors(place):
        return cast(bytes, reader.read_range(offset, left)) if left else b""


def _is_unfinished(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(_UNFINISHED)


def _age(found: Any) -> float:
    return time.time() - float(found.modification_time) / 1000


def _stat(found: Any) -> Stat:
    return Stat.of(found.length, found.modification_time * 10**6)


def _status(url: Url) -> Any | None:
    try:
        with _readable_errors(url):
            return _client(url).get_file_info(_path(url))
    except FileNotFoundError:
        return None


def _url(place: File) -> Url:
    return cast(Url, place)  # `storage_of` gives nothing else to this storage


def _path(place: Place) -> str:
    return "/" + str(place).partition("://")[2].partition("/")[2]


def _client(url: Url) -> Any:
    return _connect(url.text.partition("://")[2].partition("/")[0])


@functools.cache
def _connect(authority: str) -> Any:
    """A client of a name node or name service; "" is that of the Hadoop configuration."""
    try:
        from hdfs_native import Client
    except ImportError:
        raise UsageError(
            "Reading hdfs:// needs a client. Install it: pip install 'shardmill[hdfs]'."
        ) from None
    return Client(f"hdfs://{authority}" if authority else None)


os.register_at_fork(after_in_child=_connect.cache_clear)


@contextlib.contextmanager
def _readable_errors(place: object) -> Iterator[None]:
    """Raises what the client raises within this context as an OSError that names the file."""
    name = str(place)
    try:
        yield
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
    except PermissionError as error:
        raise PermissionError(errno.EACCES, str(error).partition("\n")[0], name) from None
    except (OSError, RuntimeError, ValueError) as error:
        raise OSError(errno.EIO, str(error).partition("\n")[0], name) from None
