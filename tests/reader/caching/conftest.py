"""Sets that lie elsewhere: a directory behind a file system that can fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

import reader
from reader.cache import locations, retrying
from reader.cache.origins import RemoteOrigin

URL = "s3://bucket/set"


class FlakyFiles:
    """The local file system as an object store that fails, and gives less than there is.

    Attributes:
        opened: Every file that was opened, by name.
        fails: Of every name, how many times it cannot be opened from now on.
        cuts: Of every name, how many times its end is missing.
        dies: Whether nothing can be reached.
    """

    def __init__(self) -> None:
        self._files = fs.LocalFileSystem()
        self.opened: list[str] = []
        self.fails: dict[str, int] = {}
        self.cuts: dict[str, int] = {}
        self.dies = False

    def open_input_stream(self, path: str, compression: None) -> Any:
        name = self._open(path)
        if self.cuts.get(name, 0):
            self.cuts[name] -= 1
            whole = Path(path).read_bytes()
            import pyarrow as pa

            return pa.BufferReader(whole[: len(whole) // 2])
        return self._files.open_input_stream(path, compression=compression)

    def open_input_file(self, path: str) -> Any:
        self._open(path)
        return self._files.open_input_file(path)

    def _open(self, path: str) -> str:
        name = Path(path).name
        self.opened.append(name)
        if self.dies:
            raise OSError("curlCode: 7, Could not connect to server")
        if self.fails.get(name, 0):
            self.fails[name] -= 1
            raise OSError("AWS Error SLOW_DOWN")
        return name


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[str, FlakyFiles]]:
    """Puts a set at a URL; gives the URL and what can be made to fail."""

    def put(directory: Path) -> tuple[str, FlakyFiles]:
        files = FlakyFiles()
        monkeypatch.setattr(
            locations, "connect", lambda url: RemoteOrigin(files, str(directory), url)
        )
        monkeypatch.setattr(retrying, "_PAUSE_SECONDS", 0.01)
        return URL, files

    return put


@pytest.fixture
def batches() -> Callable[..., tuple[list[Any], reader.Stream]]:
    """The first batches of a set, and the stream, its copies finished."""

    def read(directory: Any, count: int = 14, **options: Any) -> tuple[list[Any], reader.Stream]:
        options = {"batch_size": 20, "image_size": 16, "augment": "standard", "seed": 3} | options
        stream = reader.load(directory, **options)
        found = [[part.numpy() for part in batch] for batch in stream.dataset.take(count)]
        for copies in stream.copies:
            copies.wait()
        return found, stream

    return read


@pytest.fixture
def same() -> Callable[[Any, Any], bool]:
    """Whether two lists of batches are equal to the byte."""

    def equal(some: Any, others: Any) -> bool:
        return len(some) == len(others) and all(
            np.array_equal(x, y)
            for batch, other in zip(some, others, strict=True)
            for x, y in zip(batch, other, strict=True)
        )

    return equal
