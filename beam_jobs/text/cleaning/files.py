"""Files of the user that a step needs: known by what they hold, not by where they lie."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import NamedTuple

from shard_format import InputError


class InputFile(NamedTuple):
    """A file as it was at some time.

    Attributes:
        path: Where it lies.
        size: Bytes.
        changed: When it was changed last, in nanoseconds.
    """

    path: str
    size: int
    changed: int

    @classmethod
    def at(cls, path: str) -> InputFile:
        """The file at a path.

        Raises:
            InputError: There is none.
        """
        try:
            status = Path(path).stat()
        except OSError as error:
            raise _unreadable(path, error) from None
        return cls(path, status.st_size, status.st_mtime_ns)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return Path(self.path).name

    def data(self) -> bytes:
        """What it holds.

        Raises:
            InputError: It cannot be read.
        """
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise _unreadable(self.path, error) from None

    def text(self) -> str:
        """What it holds, as UTF-8; a byte order mark may come first.

        Raises:
            InputError: It cannot be read, or is no UTF-8.
        """
        try:
            return self.data().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.path} must be text in UTF-8, got a bad byte at offset {error.start}. "
                "Write it in UTF-8."
            ) from None


def told(path: str) -> dict[str, str] | None:
    """What the manifest tells of a file: its name and the hash of what it holds.

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
    return InputError(f"a file named by an option must be readable, got {why}: {path}. Correct it.")
