"""Copies of whole files: verified, made once, whole under their final name."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from foundation import storage
from foundation.processes.locks import is_same_file, try_lock
from foundation.retries import retry
from foundation.storage import Place
from reader.cache.inventory import PART, is_whole
from shard_format import DamageError, ShardmillError

OnBytes = Callable[[int], None]

# Seconds before a transfer that came out damaged is tried again. Storage itself retries requests.
_PAUSES = (0.5, 1.0)
_LOOK_SECONDS = 0.05  # between two looks at a file that another process has
_BLOCK_BYTES = 4 << 20  # 4 MiB: hashing releases the GIL, and round trips do not count


class Stopped(Exception):
    """Nobody needs the copy any more."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A file that is to be copied.

    Attributes:
        file: Path relative to the set.
        path: Path of the copy.
        bytes: Size of the file.
        sha256: SHA-256 of the file, in hex.
    """

    file: str
    path: Path
    bytes: int
    sha256: str

    @property
    def is_there(self) -> bool:
        """Whether the copy is made: a file of that name is whole."""
        return is_whole(self.path, self.bytes)


def fetch(source: Place, wanted: Wanted, on_bytes: OnBytes = lambda size: None) -> None:
    """Makes one copy, unless it is there, or another process has just made it.

    It is written to a temporary name, compared with the manifest's SHA-256 and renamed. Who writes
    holds a lock on the temporary file, so others wait for him, and a file without a lock is a dead
    process's, and is written anew.

    Args:
        source: The set that the file comes from.
        wanted: The file.
        on_bytes: Called with the size of every block, and with 0 while another process copies; may
            raise to end the copy.

    Raises:
        DamageError: What was read does not match the manifest, several times.
        OSError: The file cannot be read, or the copy not be written.
    """
    part = wanted.path.with_name(wanted.path.name + PART)
    part.parent.mkdir(parents=True, exist_ok=True)  # of an appended generation
    with locked(part, lambda: on_bytes(0)):
        if wanted.is_there:
            return
        retry(
            lambda: _copy(source, wanted, part, on_bytes),
            _PAUSES,
            lambda error: isinstance(error, DamageError),
        )
        part.replace(wanted.path)


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a file that one process at a time may have; made where missing, deleted at the end.

    It may be renamed meanwhile. Who waits for a file that was renamed or deleted tries again.

    Args:
        path: The file.
        on_wait: Called now and then while another process has it; may raise to wait no longer.
    """
    while True:
        with path.open("ab") as file:
            while not try_lock(file):
                on_wait()
                time.sleep(_LOOK_SECONDS)
            if not is_same_file(file, path):
                continue
            try:
                yield
            finally:
                if is_same_file(file, path):
                    path.unlink()
            return


def _copy(source: Place, wanted: Wanted, part: Path, on_bytes: OnBytes) -> None:
    digest = hashlib.sha256()
    with storage.open_input(source / wanted.file) as read, part.open("wb") as write:
        while block := read.read(_BLOCK_BYTES):
            digest.update(block)
            write.write(block)
            on_bytes(len(block))
        # Before the rename: a power cut must not leave a file of the right name and size, empty.
        write.flush()
        os.fsync(write.fileno())
    if digest.hexdigest() != wanted.sha256:
        raise DamageError(
            f"SHA-256 differs from the manifest in {source / wanted.file}. Run 'shardmill "
            "verify' to see which record is damaged, or copy the set again."
        )


class Copies:
    """Copies that a thread makes while the source is read, so that no batch waits for them.

    It begins at once and ends with the list, with the process's main thread, or when the object is
    no longer used. A copy that fails is reported in a warning and skipped.

    Args:
        source: The set that the files come from.
        wanted: The files.
    """

    def __init__(self, source: Place, wanted: Sequence[Wanted]) -> None:
        self._progress = _CopyProgress(sum(file.bytes for file in wanted))
        self._thread = threading.Thread(
            target=_make_all, args=(source, wanted, self._progress), name="shardmill-cache"
        )
        self._thread.start()

    @property
    def copied_bytes(self) -> int:
        """Bytes that are there, of `total_bytes`."""
        return self._progress.copied

    @property
    def total_bytes(self) -> int:
        """Bytes that there will be."""
        return self._progress.total

    @property
    def error(self) -> Exception | None:
        """Why the last copy that could not be made was not; None where all are, or will be."""
        return self._progress.error

    def wait(self) -> None:
        """Returns when all copies are made.

        Raises:
            DamageError: A file does not match the manifest.
            OSError: One cannot be read or written.
        """
        self._thread.join()
        if self._progress.error is not None:
            raise self._progress.error

    def stop(self) -> None:
        """Ends it after the block that is being copied; what is not whole is thrown away."""
        self._progress.stopped = True

    def __del__(self) -> None:
        self._progress.stopped = True


class _CopyProgress:
    """State that the thread and its owner share."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.copied = 0
        self.stopped = False
        self.error: Exception | None = None

    def add(self, size: int) -> None:
        # At its exit, Python waits for all threads that are no daemons, and kills daemons wherever
        # they are, also inside PyArrow, which may abort the process. So this one looks whether the
        # main thread is still there.
        if self.stopped or not threading.main_thread().is_alive():
            raise Stopped
        self.copied += size


def _make_all(source: Place, wanted: Sequence[Wanted], progress: _CopyProgress) -> None:
    """Not a method: the thread must not keep alive the object whose end it waits for."""
    done = 0
    for file in wanted:
        try:
            progress.add(0)
            fetch(source, file, progress.add)
            done += file.bytes
            progress.copied = done
        except Stopped:
            return
        except (OSError, ShardmillError) as error:
            progress.copied = done
            progress.error = error
            warnings.warn(
                f"{source / file.file} is read from its source, since copying it failed: {error}",
                stacklevel=1,
            )
