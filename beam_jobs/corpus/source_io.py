"""Reads of source files, with retries: an I/O error is not a property of the data.

A mount that goes away for a moment must not reject the records behind it. An operation that keeps
failing raises UnreadableError, which stops the unit, not the record.

Files may change between listing and reading. Records are stored under the size and the time of
change that the listing has: they decide the key of a unit, and what an append takes for known. So
bytes of another version are not used, also whole ones, and a set has no file of which one part is
older than another. A file that still has its listed size and time once it was read is the one that
was listed. One look behind the last record of a file is enough.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from beam_jobs.corpus.record import Rejection, SourceItem
from foundation import storage
from foundation.retries import retry

Result = TypeVar("Result")

# Seconds between attempts. Longer outages end the unit; the same command resumes later.
RETRY_SECONDS = (0.1, 0.5, 2.0)
# After a failure other files of the same storage are tried once, or a lost mount with a million
# files would be waited for a million times.
_NO_RETRY_SECONDS = 10.0

TOO_LARGE = "file-too-large"  # the reason of a record that exceeds --max-record-bytes
_last_failure = float("-inf")  # monotonic seconds; per process


class UnreadableError(Exception):
    """A source file cannot be read because of an I/O error that retries did not cure.

    Args:
        path: The file.
        error: The last attempt's error.
    """

    def __init__(self, path: bytes, error: OSError) -> None:
        super().__init__(path, error)
        self.path = path
        self.error = error

    def __str__(self) -> str:
        name = self.path.decode("utf-8", "backslashreplace")
        return f"{self.error.strerror or type(self.error).__name__}: {name}"


def place_of(path: bytes) -> storage.Place:
    """Where a path of an item is, for the storage layer."""
    return storage.place_of(os.fsdecode(path))


def file_of(path: bytes) -> storage.File:
    """`place_of` without a Path, which takes as long as reading a small file."""
    return storage.place_of(os.fsdecode(path)) if b"://" in path else path


def path_of(place: storage.Place) -> bytes:
    """A place as an item has it: the reverse of `place_of`."""
    return os.fsencode(str(place))


def retried(operation: Callable[[], Result], path: bytes) -> Result:
    """The result of a file operation, tried again while it fails.

    Args:
        operation: Raises OSError where it fails.
        path: The file that it reads.

    Raises:
        Rejection: The file was removed after it was listed.
        UnreadableError: It still fails after the last retry.
    """
    global _last_failure
    failed_lately = time.monotonic() - _last_failure < _NO_RETRY_SECONDS

    def may_pass(error: Exception) -> bool:
        return isinstance(error, OSError) and not _is_gone(error, path)

    try:
        return retry(operation, () if failed_lately else RETRY_SECONDS, may_pass)
    except OSError as error:
        if _is_gone(error, path):
            raise Rejection("missing-file", "the file was removed after it was listed") from None
        _last_failure = time.monotonic()
        raise UnreadableError(path, error) from error


def _is_gone(error: OSError, path: bytes) -> bool:
    """Whether a fresh listing of the folder shows other files but not this one.

    A folder that is empty or cannot be listed may be a mount point without its file system.
    """
    if error.errno != errno.ENOENT:
        return False
    place = place_of(path)
    try:
        names = {entry.name for entry in storage.list_folder(place.parent)}
    except OSError:
        return False
    return bool(names) and place.name not in names


def is_readable(path: bytes) -> bool:
    """Whether the first byte of a file can be read now, or it is known to be removed."""
    try:
        storage.read_range(place_of(path), 0, 1)
    except OSError as error:
        return _is_gone(error, path)
    return True


def is_file(path: bytes) -> bool:
    """Whether there is a regular file; reading it may still fail."""
    try:
        return storage.stat(place_of(path)) is not None
    except OSError:
        return False


def read_file(path: bytes, size: int, limit: int) -> bytes:
    """The whole file.

    Args:
        path: The file.
        size: Its bytes, as listed.
        limit: Most bytes that a record may have.

    Raises:
        Rejection: It is too large, or was removed after it was listed.
        UnreadableError: It cannot be read.
    """
    check_size(size, limit)
    file = file_of(path)
    data = retried(lambda: storage.read_file(file, size, limit), path)
    check_size(len(data), limit)
    return data


def check_size(size: int, limit: int) -> None:
    """Checks that a record may be held in memory.

    Raises:
        Rejection: It has more bytes than the limit.
    """
    if size > limit:
        detail = f"the record has {size} bytes, more than --max-record-bytes {limit}"
        raise Rejection(TOO_LARGE, detail)


CHANGED = "changed-while-reading"  # a reason
# An object of at most so many bytes is read in one request, which gives one version of it; a look
# at it would be a request more for each.
_ONE_REQUEST_BYTES = 8 << 20


class SourceChangedError(Exception):
    """A file has changed after some of its records were taken."""


def read_path(item: SourceItem) -> bytes:
    """The path of the file that has the bytes of an item."""
    return item.replacement or item.path


def change_of(item: SourceItem) -> str:
    """What differs between the file of an item and the listing; "" if nothing is known to.

    A file that is gone has not changed: what was read of it is what was listed.
    """
    path = read_path(item)
    try:
        if b"://" not in path:
            status = os.stat(path)  # without a Path, which takes longer than this
            size, mtime_ns = status.st_size, status.st_mtime_ns
        else:
            is_small = _is_whole(item) and item.size <= _ONE_REQUEST_BYTES
            if is_small and not path.startswith(b"http"):  # of a web server files are few
                return ""
            place = place_of(path)
            stat = None if storage.is_fixed(place) else storage.stat(place)
            if stat is None:
                return ""
            size, mtime_ns = stat  # the time of an object has its ETag in it
    except OSError:
        return ""
    if size != item.size and _is_whole(item):
        return f"it has {size:,} bytes, {item.size:,} when it was listed"
    if (mtime_ns - item.mtime_ns) % (1 << 64):  # a listing has an int64
        return "its time of change is another than when it was listed"
    return ""


def _is_whole(item: SourceItem) -> bool:
    return not (item.locator.container or item.locator.is_split)
