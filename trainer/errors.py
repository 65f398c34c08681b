"""The one branch that the trainer adds to the exception tree of `shard_format.errors`."""

from __future__ import annotations

from shard_format.errors import ShardmillError


class TrainingError(ShardmillError):
    """The training cannot go on; the message says at which step and what may help."""
