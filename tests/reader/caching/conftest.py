"""Sets at a URL: a directory behind a storage that counts, and that can fail."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from foundation import storage
from foundation.storage import LOCAL, Url
from reader.cache import copying

URL = "flaky://bucket/set"


class FlakyStorage:
    """A directory as an object store that goes away, and gives less than there is.

    Attributes:
        opened: Every file that was opened, by name.
        ranges: Every range that was read: (name, offset, size).
        cuts: Number of times that the end of a file is missing, by its name.
        dies: Whether nothing can be reached.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.opened: list[str] = []
        self.ranges: list[tuple[str, int, int]] = []
        self.cuts: dict[str, int] = {}
        self.dies = False

    def open_input(self, place: Url) -> Any:
        path = self._open(place)
        if self.cuts.get(path.name, 0):
            self.cuts[path.name] -= 1
            whole = path.read_bytes()
            return io.BytesIO(whole[: len(whole) // 2])
        return LOCAL.open_input(path)

    def stat(self, place: Url) -> Any:
        return LOCAL.stat(self._open(place))

    def read_ranges(self, place: Url, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        path = self._open(place)
        for offset, size in ranges:
            self.ranges.append((path.name, offset, size))
            data = next(LOCAL.read_ranges(path, [(offset, size)]))
            if self.cuts.get(path.name, 0):
                self.cuts[path.name] -= 1
                data = data[: len(data) // 2]
            yield data

    def list_folder(self, place: Url) -> Any:
        return LOCAL.list_folder(self._open(place))

    def _open(self, place: Url) -> Path:
        self.opened.append(place.name)
        if self.dies:
            raise OSError(errno.EIO, "Could not connect to server", str(place))
        return self._directory / str(place).removeprefix(URL).removeprefix("/")


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], tuple[str, FlakyStorage]]:
    """Puts a set at a URL; gives the URL and what can be made to fail."""

    def put(directory: Path) -> tuple[str, FlakyStorage]:
        files = FlakyStorage(directory)
        monkeypatch.setitem(storage.STORAGES, "flaky", files)
        monkeypatch.setattr(copying, "_PAUSES", (0.01, 0.01))
        return URL, files

    return put


@pytest.fixture
def batches() -> Callable[..., tuple[list[Any], reader.Stream]]:
    """The first batches of a set, and the stream, its copies finished."""

    def read(directory: Any, count: int = 14, **options: Any) -> tuple[list[Any], reader.Stream]:
        options = {"batch_size": 20, "image_size": 16, "augment": "standard", "seed": 3} | options
        stream = reader.load(directory, **options)
        taken = [[part.numpy() for part in batch] for batch in stream.dataset.take(count)]
        for copies in stream.copies:
            copies.wait()
        return taken, stream

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
