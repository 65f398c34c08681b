"""Files of the user that a step needs, identified by their content."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
from typing import NamedTuple

from foundation import storage
from shard_format import InputError


class InputFile(NamedTuple):
    """A version of a file.

    Attributes:
        path: Its path.
        size: Size in bytes.
        changed: Time of its last change, in nanoseconds.
    """

    path: str
    size: int
    changed: int

    @classmethod
    def at(cls, path: str) -> InputFile:
        """The file at a path.

        Raises:
            InputError: There is no such file.
        """
        try:
            version = storage.stat(storage.place_of(path))
            if version is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        except OSError as error:
            raise _unreadable(path, error) from None
        return cls(path, *version)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return storage.place_of(self.path).name

    def data(self) -> bytes:
        """Its content.

        Raises:
            InputError: It cannot be read.
        """
        try:
            return storage.read_bytes(storage.place_of(self.path))
        except OSError as error:
            raise _unreadable(self.path, error) from None

    def text(self) -> str:
        """Its content as UTF-8, without a byte order mark.

        Raises:
            InputError: It cannot be read, or is not UTF-8.
        """
        try:
            return self.data().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.path} is not UTF-8: bad byte at offset {error.start}. Convert it to UTF-8."
            ) from None


def describe_file(path: str) -> dict[str, str] | None:
    """A file for the manifest: its name and the hash of its content; None for an empty path.

    Raises:
        InputError: It cannot be read.
    """
    if not path:
        return None
    file = InputFile.at(path)
    return {"file": file.name, "sha256": _digest(file)}


@functools.lru_cache(maxsize=64)
def _digest(file: InputFile) -> str:
    return hashlib.sha256(file.data()).hexdigest()


def _unreadable(path: str, error: OSError) -> InputError:
    why = error.strerror or type(error).__name__
    return InputError(f"Cannot read {path}: {why}. Correct the option that names it.")
