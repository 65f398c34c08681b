"""The exception tree of shardmill, with the exit code of each branch.

    ShardmillError                 3
    |-- UsageError                 2   an option is unknown, malformed or contradicts another
    |-- InputError                 3   the raw corpus or the output cannot be used
    |-- ShardSetError              3   a directory is not a shard set that this version reads
    `-- DamageError                4   a file of a shard set is not as it was written

Every message says the fact first, with value and place, then what to do. Only these exceptions
reach a user without a traceback; any other exception is a bug of shardmill.
"""

from __future__ import annotations


class ShardmillError(Exception):
    """An error that a user can fix; `exit_code` is that of the command line."""

    exit_code = 3


class UsageError(ShardmillError):
    """An option is unknown, malformed or contradicts another one."""

    exit_code = 2


class InputError(ShardmillError):
    """The raw corpus or the output cannot be used."""


class ShardSetError(ShardmillError):
    """A directory is not a shard set, or one that this version cannot read."""


class DamageError(ShardmillError):
    """A file of a shard set is not as it was written."""

    exit_code = 4
