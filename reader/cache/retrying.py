"""A second and a third try of a transfer that came out damaged. Storage itself retries requests."""

from __future__ import annotations

from collections.abc import Callable

from foundation.retries import Result, retry
from shard_format import DamageError

_PAUSE_SECONDS = 0.5  # before the second attempt, then twice as long


def retried(action: Callable[[], Result]) -> Result:
    """Returns what an action returns, the third time at the latest.

    Args:
        action: Function that leaves nothing behind where it fails.
    """
    pauses = (_PAUSE_SECONDS, 2 * _PAUSE_SECONDS)
    return retry(action, pauses, lambda error: isinstance(error, DamageError))
