"""Where a shard set is read from: a directory, or a place that only PyArrow reads (s3://, gs://, hdfs://).

TensorFlow's wheels have no file system for S3 and none for HDFS; PyArrow's have both, and that for
Google Cloud Storage, so sets that are no directory are read through it alone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from shard_format import ShardSetError, UsageError
from shard_format.storage import place_of

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_STREAM_BYTES = 4 << 20  # 4 MiB a request: round trips to an object store take 10 to 100 ms


class Origin(Protocol):
    """Where the files of a shard set come from."""

    def name(self, file: str) -> str:
        """A file, for messages."""

    def open(self, file: str) -> BinaryIO:
        """A file at its beginning, to be closed by the caller.

        Raises:
            FileNotFoundError: It is not there.
            OSError: It cannot be read.
        """

    def open_random(self, file: str) -> RandomFile:
        """A file of which parts are read, from several threads at a time."""


class RandomFile(Protocol):
    """A file that is read at any place."""

    def read_at(self, size: int, offset: int) -> bytes:
        """Bytes from an offset on; fewer at the end of the file only."""


class DirectoryOrigin:
    """A directory that the operating system knows.

    Args:
        root: The directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def name(self, file: str) -> str:
        """See `Origin`."""
        return str(self.root / file)

    def open(self, file: str) -> BinaryIO:
        """See `Origin`."""
        return (self.root / file).open("rb")

    def open_random(self, file: str) -> RandomFile:
        """See `Origin`."""
        opened: RandomFile = pa.OSFile(str(self.root / file), "rb")
        return opened


class RemoteOrigin:
    """A set that PyArrow reads.

    Args:
        files: The file system.
        path: Of the set in it.
        url: Of the set, without anything secret.
    """

    def __init__(self, files: Any, path: str, url: str) -> None:
        self._files = files
        self._path = path
        self.url = url

    def name(self, file: str) -> str:
        """See `Origin`."""
        return f"{self.url}/{file}"

    def open(self, file: str) -> BinaryIO:
        """See `Origin`."""
        stream = self._files.open_input_stream(f"{self._path}/{file}", compression=None)
        return io.BufferedReader(stream, _STREAM_BYTES)

    def open_random(self, file: str) -> RandomFile:
        """See `Origin`."""
        opened: RandomFile = self._files.open_input_file(f"{self._path}/{file}")
        return opened


def is_remote(directory: object) -> bool:
    """Whether a set is named by a URL of another kind than file://."""
    return (
        isinstance(directory, str)
        and _URL.match(directory) is not None
        and not directory.lower().startswith("file://")
    )


def local_directory(directory: Any) -> Path:
    """The directory that is named by a path, or by a file:// URL.

    Raises:
        UsageError: The URL names another machine.
    """
    return cast(Path, place_of(directory))  # a Url is of another kind than file://


def own_directory(directory: Any, where: str) -> Path:
    """The directory of a set that is read without a copy: of this machine.

    Raises:
        UsageError: It is a URL of another place.
    """
    if is_remote(directory):
        raise UsageError(
            f"{where} cannot read {shown_url(directory)}: it reads sets in directories. Mount or "
            "copy the set, or use reader.load."
        )
    return local_directory(directory)


def connect(
    url: str, from_uri: Callable[[str], tuple[Any, str]] = fs.FileSystem.from_uri
) -> RemoteOrigin:
    """The set at a URL; nothing is read yet.

    Args:
        url: Such as s3://bucket/path; credentials and an endpoint may be part of it as PyArrow has
            them, or in the environment.
        from_uri: What makes a file system and a path of it.

    Raises:
        UsageError: PyArrow has no file system for it, or the URL is malformed.
        ShardSetError: The place cannot be reached.
    """
    shown = shown_url(url)
    try:
        files, path = from_uri(url)
    # ArrowNotImplementedError: this PyArrow was built without the file system of the URL.
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
        reason = str(error).replace(url, shown)
        raise UsageError(
            f"PyArrow cannot read a set at {shown} ({reason}). Pass a directory, or a URL of "
            "s3://, gs://, hdfs:// or abfs://."
        ) from error
    except OSError as error:
        raise ShardSetError(unreachable(shown, str(error).replace(url, shown))) from error
    return RemoteOrigin(files, path.rstrip("/"), shown.rstrip("/"))


def unreachable(place: str, error: object) -> str:
    """The message that a remote file cannot be read."""
    return f"Cannot read {place}: '{error}'. Check the URL, the credentials and the connection."


def shown_url(url: str) -> str:
    """A URL without its user, password and options: these may be secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
