"""The exception tree of shardmill, and the exit code each branch stands for.

    ShardmillError                 3
    |-- UsageError                 2   an option is unknown, malformed or contradicts another
    |-- InputError                 3   the raw corpus or the place to write to is at fault
    |-- ShardSetError              3   a directory is no shard set, or one this version cannot read
    `-- DamageError                4   a shard set does not hold the bytes its manifest promises

Every message follows one template: the rule, the value found, where, and what to do. Only these
exceptions reach a user without a traceback; any other one is a bug of shardmill.
"""

from __future__ import annotations


class ShardmillError(Exception):
    """Anything a user can cause and can mend; `exit_code` is what the command line returns."""

    exit_code = 3


class UsageError(ShardmillError):
    """An option is unknown, malformed or contradicts another one."""

    exit_code = 2


class InputError(ShardmillError):
    """The raw corpus, or the place to write to, cannot be used as it is."""


class ShardSetError(ShardmillError):
    """A directory holds no shard set, or one that this version cannot read."""


class DamageError(ShardmillError):
    """A shard set does not hold the bytes its manifest promises."""

    exit_code = 4
