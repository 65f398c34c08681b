"""Whole files of servers without range requests, copied once for all processes of a machine.

A copy is in a folder for temporary files, under a name that URL, size and time give it, and is
removed by the process that made it. One that was killed leaves its copies to the next: to use them
or to remove them. Who has opened a copy reads on when it is removed.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from foundation.machine import own_temporary_folder
from foundation.processes.locks import try_lock
from foundation.storage.base import Stat, Url
from foundation.storage.object_file import Answer
from foundation.storage.objects import attempts, client, object_stat
from foundation.storage.traffic import count

_MAX_COPIES = 8  # that are open: more are small files, such as images, which are read once
_COPY_BYTES = 4 << 20  # 4 MiB
_WAIT_SECONDS = 0.1  # between looks at whether another process has made its copy


class _WholeCopy:
    """A whole file on this machine.

    Args:
        file: The file, open.
        stat: What the server said of it.
        made: Its place, to remove it; None if another process will.

    Attributes:
        stat: What the server said of it.
    """

    def __init__(self, file: IO[bytes], stat: Stat, made: Path | None = None) -> None:
        self._descriptor = os.dup(file.fileno())  # with the lock of the file
        self._made, self._process = made, os.getpid()
        self.stat = stat

    def read(self, offset: int, size: int) -> Answer:
        """A range of the file."""
        return Answer(os.pread(self._descriptor, size, offset), self.stat.size)

    def __del__(self) -> None:
        if self._made is not None and self._process == os.getpid():
            self._made.unlink(missing_ok=True)
        os.close(self._descriptor)


class WholeCopies:
    """The copies that this process has open."""

    def __init__(self) -> None:
        self._copies: OrderedDict[Url, _WholeCopy] = OrderedDict()
        self._lock = threading.Lock()
        atexit.register(self._copies.clear)

    def of(self, url: Url) -> _WholeCopy | None:
        """The copy of a file; None if there is none."""
        return self._copies.get(url)

    def keep_if(self, url: Url, stat: Stat) -> None:
        """Forgets the copy of a file that has changed."""
        copy = self._copies.get(url)
        if copy is not None and copy.stat != stat:
            self._copies.pop(url, None)

    def make(self, url: Url) -> _WholeCopy:
        """The copy of a file; an interrupted transfer begins anew.

        Raises:
            OSError: It fails again and again, or there is no space.
        """
        with self._lock:
            copy = self._copies.get(url)
            if copy is None:
                with _locked_folder() as folder:
                    copy = attempts(url, partial(_copy, url, folder))
                self._copies[url] = copy
                while len(self._copies) > _MAX_COPIES:
                    self._copies.popitem(last=False)
        return copy


@contextlib.contextmanager
def _locked_folder() -> Iterator[Path]:
    """The folder of all copies; one is made at a time, since it takes the whole connection."""
    folder = own_temporary_folder("shardmill-web")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while not try_lock(descriptor):
            time.sleep(_WAIT_SECONDS)
        yield folder
    finally:
        os.close(descriptor)


def _copy(url: Url, folder: Path, store: Any, key: str) -> _WholeCopy:
    """The copy of another process, if it is of the same version, or a new one."""
    result = client().get(store, key)
    stat = object_stat(result.meta)
    made = folder / hashlib.blake2b(repr((url.text, *stat)).encode(), digest_size=16).hexdigest()
    with contextlib.suppress(FileNotFoundError), made.open("rb") as file:
        has_ended = try_lock(file)  # the process that made it
        return _WholeCopy(file, stat, made if has_ended else None)
    _remove_left(folder)
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as new:
        try:
            try_lock(new)
            for chunk in result.stream(min_chunk_size=_COPY_BYTES):
                new.write(chunk)
                count(0, len(chunk))
            new.flush()
            os.replace(new.name, made)
        except BaseException:
            os.unlink(new.name)
            raise
        return _WholeCopy(new, stat, made)


def _remove_left(folder: Path) -> None:
    """Removes the copies of processes that have ended."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if try_lock(file):
                path.unlink()
