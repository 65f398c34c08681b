"""The exception tree of shardmill, with the exit code of each branch.

    ShardmillError                 3
    |-- UsageError                 2   an option is unknown, malformed or contradicts another
    |-- InputError                 3   the raw corpus or the output cannot be used
    |   `-- EmptySetError          3   every record of the corpus was rejected
    |-- ShardSetError              3   a directory is not a shard set that this version reads
    |   `-- SetReplacedError       3   it was compacted or built again while it was read
    |-- MissingExtraError          3   a package is not installed; in `foundation/extras.py`
    `-- DamageError                4   a file of a set or a run is not as it was written

Every message says the fact first, with value and place, then what to do. Only these exceptions
reach a user without a traceback; any other exception is a bug of shardmill.
"""

from __future__ import annotations

import errno
import os

INTERRUPTED = 130  # exit code after Ctrl-C: 128 + SIGINT, as shells have it
# What Ctrl-C means for a job that saves what it has finished.
RESUMES = "run the same command again; it resumes where something was saved"


class ShardmillError(Exception):
    """An error that a user can fix; `exit_code` is that of the command line."""

    exit_code = 3


class UsageError(ShardmillError):
    """An option is unknown, malformed or contradicts another one."""

    exit_code = 2


class InputError(ShardmillError):
    """The raw corpus or the output cannot be used."""


class EmptySetError(InputError):
    """Every record of a corpus was rejected, so there is no set."""


class ShardSetError(ShardmillError):
    """A directory is not a shard set, or one that this version cannot read."""


class SetReplacedError(ShardSetError):
    """A set is no longer the one that was opened."""


class DamageError(ShardmillError):
    """A file of a shard set, or a checkpoint of a run, is not as it was written."""

    exit_code = 4


def file_error(error: OSError, path: str, *, resumes: bool = True) -> InputError:
    """A failed file operation, as a message.

    Args:
        error: Error of the operation.
        path: What to name if the error names no file.
        resumes: Whether the same command continues where it failed.
    """
    name = error.filename if error.filename is not None else path
    name = name if isinstance(name, bytes) else os.fsencode(name)
    # A file name may be any bytes, and this one will be printed, stored and sent.
    readable = name.decode("utf-8", "backslashreplace")
    again = f"run the same command again{'; it resumes' if resumes else ''}."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(f"No space left while writing {readable}. Free some and {again}")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return InputError(f"{error.strerror}: {readable}. Give permission and {again}")
    return InputError(f"{error.strerror}: {readable}. Fix that and {again}")
