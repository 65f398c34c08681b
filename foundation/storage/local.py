"""What the operating system has mounted: a disk, NFS, a bucket by FUSE."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import shutil
import stat as modes
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from typing_extensions import override

from foundation.storage.base import (
    FILE,
    FOLDER,
    OTHER,
    UNKNOWN,
    Entry,
    File,
    Place,
    RandomAccessFile,
    Stat,
    Storage,
)

# There is no file of such a name. Where one is to be made, that fails with the system's reason.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_BLOCK_BYTES = 1 << 20  # 1 MiB a system call

# Linux alone has it.
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)
_BEGIN_TO_WRITE = ctypes.c_uint(2)  # SYNC_FILE_RANGE_WRITE, which does not wait


class LocalStorage(Storage):
    """What the operating system has mounted: a disk, NFS, a bucket by FUSE."""

    @override
    def read_ranges(self, place: Place, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """One system call a range: a shard reads a few records of each unit."""
        descriptor = os.open(_path(place), os.O_RDONLY | os.O_CLOEXEC)
        try:
            for offset, size in ranges:
                yield _read_fully(descriptor, offset, size)
        finally:
            os.close(descriptor)

    @override
    def read_file(self, place: File, size: int, limit: int) -> bytes:
        """Three system calls, where `open` and `read` make seven.

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

    @override
    def open_input(self, place: Place) -> BinaryIO:
        return _path(place).open("rb")

    @override
    def open_random(self, place: File) -> RandomAccessFile:
        return _LocalFile(_local(place))

    @override
    def stat(self, place: Place) -> Stat | None:
        try:
            stat = _path(place).stat()
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise
        return Stat.of(stat.st_size, stat.st_mtime_ns) if modes.S_ISREG(stat.st_mode) else None

    @override
    def is_folder(self, place: Place) -> bool:
        try:
            return _path(place).is_dir()
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise

    def exists(self, place: Place) -> bool:
        """Whether there is a file, a folder, or anything else."""
        try:
            return _path(place).exists()
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise

    @override
    def list_folder(self, place: Place) -> Iterator[Entry]:
        with os.scandir(_path(place)) as entries:
            for entry in entries:
                is_link = entry.is_symlink()
                try:
                    target = entry.stat()
                except OSError:
                    kind = OTHER if is_link else UNKNOWN
                    yield Entry(entry.name, kind, Stat(0, 0), is_link)
                else:
                    status = Stat.of(target.st_size, target.st_mtime_ns)
                    yield Entry(entry.name, _kind(target.st_mode), status, is_link)

    @override
    def list_tree(self, place: Place) -> Iterator[tuple[str, Stat]]:
        root = os.fspath(_path(place))
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                stat = os.lstat(path)
                if modes.S_ISREG(stat.st_mode):
                    yield os.path.relpath(path, root), Stat.of(stat.st_size, stat.st_mtime_ns)

    @override
    def make_folder(self, place: Place) -> None:
        _path(place).mkdir(parents=True, exist_ok=True)

    @override
    @contextlib.contextmanager
    def create(
        self, place: Place, *, durable: bool, if_absent: bool, scratch: Path | None
    ) -> Iterator[BinaryIO]:
        """The file is written under another name, then renamed."""
        final = _path(place)
        temporary = (scratch or final.parent) / f".{uuid.uuid4().hex}.part"
        try:
            raw = (_WrittenEarly if durable else io.FileIO)(os.fspath(temporary), "xb")
            with io.BufferedWriter(raw, _BLOCK_BYTES) as file:
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
            flush_names(final.parent)

    @override
    def delete(self, place: Place) -> None:
        _path(place).unlink(missing_ok=True)

    @override
    def delete_tree(self, place: Place) -> None:
        shutil.rmtree(_path(place), ignore_errors=True)


class _WrittenEarly(io.FileIO):
    """A file that goes to the disk while more of it is made, so that fsync has less to wait for.

    Errors of the disk are left to fsync, which reports them all.
    """

    def write(self, data: Any) -> int:  # whatever has the buffer protocol
        written = super().write(data)
        if _sync_file_range is not None:
            start, to_the_end = ctypes.c_int64(0), ctypes.c_int64(0)
            _sync_file_range(self.fileno(), start, to_the_end, _BEGIN_TO_WRITE)
        return written


class _LocalFile(RandomAccessFile):
    """An open file of the operating system."""

    def __init__(self, path: Path | bytes) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    @override
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    @override
    def read_at(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    @override
    def read_into(self, offset: int, buffer: memoryview) -> int:
        return os.preadv(self._descriptor, [buffer], offset)

    @override
    def close(self) -> None:
        os.close(self._descriptor)


def _kind(mode: int) -> int:
    if modes.S_ISREG(mode):
        return FILE
    return FOLDER if modes.S_ISDIR(mode) else OTHER


def _path(place: Place) -> Path:
    return cast(Path, place)  # `storage_of` gives no Url to local storage


def _local(place: File) -> Path | bytes:
    return cast("Path | bytes", place)


def _read_fully(descriptor: int, offset: int, size: int) -> bytes:
    """The bytes from there on; fewer at the end of the file only, though a read stops at 2 GiB."""
    data = os.pread(descriptor, size, offset)
    if len(data) == size:
        return data
    parts = [data]
    while data and (size := size - len(data)):
        offset += len(data)
        data = os.pread(descriptor, size, offset)
        parts.append(data)
    return b"".join(parts)


def flush_names(folder: Path) -> None:
    """Has the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
