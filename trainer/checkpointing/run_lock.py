"""The lock of a run directory: one run at a time writes into it.

The kernel holds it (flock) and releases it when the process ends, however it ends: a run that was
killed resumes at once. The file says who holds it, for the message of the next one.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import IO

from foundation.errors import InputError, file_error
from foundation.processes.locks import is_same_file, try_lock

NAME = "lock"
# What file systems without locks answer.
_UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class RunLock:
    """The lock of a directory, which is made if there is none.

    Args:
        directory: Directory of the run.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / NAME
        self._file: IO[str] | None = None
        self._made = False

    def acquire(self, on_unsupported: Callable[[str], None]) -> None:
        """Takes the lock, to be released by `release`.

        Args:
            on_unsupported: Called with the reason where the file system has no locks.

        Raises:
            InputError: Another process holds it, or the directory cannot be written.
        """
        try:
            self._made = not self._directory.exists()
            while self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._try(on_unsupported)
        except OSError as error:
            raise file_error(error, str(self._path)) from error

    def release(self) -> None:
        """Gives it back, and deletes the file, and the directory if a run left nothing in it."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()
            if self._made:
                self._directory.rmdir()  # fails if there is anything in it
        self._file.close()
        self._file = None

    def _try(self, on_unsupported: Callable[[str], None]) -> None:
        """Takes the lock, unless the file was deleted by the run that has just released it."""
        file = self._path.open("a+", encoding="utf-8")
        try:
            is_free = try_lock(file)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                file.close()
                raise
            on_unsupported(os.strerror(error.errno))
            is_free = True
        if not is_free:
            with file:
                raise self._held(file)
        if not is_same_file(file, self._path):
            file.close()
            return
        file.truncate(0)
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        file.write(json.dumps(holder) + "\n")
        file.flush()
        self._file = file

    def _held(self, file: IO[str]) -> InputError:
        file.seek(0)
        try:
            holder = json.loads(file.read())
            who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (ValueError, KeyError, TypeError):  # it is just taking it
            who = "another process"
        return InputError(
            f"{self._directory} is in use by {who}. Wait until it has ended, stop it, or pass "
            "another --run-dir."
        )
