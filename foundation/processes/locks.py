"""Locks of files (flock), which the kernel releases when their process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Any


def lock(file: IO[Any] | int) -> None:
    """Takes the lock of an open file, and waits for it while another process holds it."""
    fcntl.flock(file, fcntl.LOCK_EX)


def try_lock(file: IO[Any] | int) -> bool:
    """Takes the lock of an open file, unless another process holds it.

    Who has to wait calls it again: a thread that waits in the kernel cannot be stopped.

    Returns:
        Whether this process holds the lock.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock of a file; False where there is no file or no locks.

    It asks for the lock that several may hold, and gives it back at once.
    """
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def is_same_file(file: IO[Any], path: Path) -> bool:
    """Whether an open file is still at a path: who held its lock before may have deleted it."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
