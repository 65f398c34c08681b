"""The shards of a split, open for random access: a bounded number of them at a time."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path


class OpenFiles:
    """Byte ranges of many files, of which at most `limit` are open; the least used go first.

    Threads may read at the same time: os.pread has no position that they would share. A file that
    is given up while another thread reads it is closed when that read is done. A process that was
    forked keeps reading the files of its parent.

    Args:
        paths: The files, which are then named by their place here.
        limit: At least 1.
        on_open: Called when a file was opened, with no lock held; what it raises, reading raises.
    """

    def __init__(
        self, paths: Sequence[Path], limit: int, on_open: Callable[[], None] = lambda: None
    ) -> None:
        self._paths, self._limit, self._on_open = paths, limit, on_open
        self._open: OrderedDict[int, _Descriptor] = OrderedDict()
        self._lock = threading.Lock()
        _EVERY.add(self)

    def read(self, file: int, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on, fewer where the file ends before.

        Raises:
            OSError: The file cannot be opened or read.
        """
        data = bytearray(length)
        return bytes(data[: self.read_into(file, offset, memoryview(data))])

    def read_into(self, file: int, offset: int, target: memoryview) -> int:
        """Fills a buffer from `offset` on, and returns how much of it; less where the file ends.

        Raises:
            OSError: The file cannot be opened or read.
        """
        opened = self._get(file)
        size = 0
        while size < len(target):
            count = os.preadv(opened.number, [target[size:]], offset + size)
            if not count:
                break
            size += count
        return size

    def expect(self, file: int, offset: int, length: int) -> None:
        """Has the system fetch a range that will be read soon, if it is not in memory.

        Raises:
            OSError: The file cannot be opened.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._get(file).number, offset, length, os.POSIX_FADV_WILLNEED)

    def _get(self, file: int) -> _Descriptor:
        with self._lock:
            opened = self._open.get(file)
            if opened is not None:
                self._open.move_to_end(file)
                return opened
        opened = _Descriptor(self._paths[file])  # not under the lock: file systems may be slow
        self._on_open()
        with self._lock:
            while len(self._open) >= self._limit:
                self._open.popitem(last=False)
            self._open[file] = opened
        return opened

    def unlock(self) -> None:
        """Makes a lock anew that a thread of another process held."""
        self._lock = threading.Lock()


class _Descriptor:
    """A file descriptor that is closed when nobody has it any more."""

    def __init__(self, path: Path) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


_EVERY: weakref.WeakSet[OpenFiles] = weakref.WeakSet()


def _unlock_all() -> None:
    for files in _EVERY:
        files.unlock()


# A fork copies locks as they are, but not the threads that would release them.
os.register_at_fork(after_in_child=_unlock_all)
