"""A second and a third try of a transfer that came out damaged. Storage itself retries requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from shard_format import DamageError

Result = TypeVar("Result")

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5  # before the second attempt, then twice as long


def retried(action: Callable[[], Result]) -> Result:
    """What an action returns, the third time at the latest.

    Args:
        action: Must leave nothing behind when it fails that a further call would mind.
    """
    for attempt in range(_ATTEMPTS - 1):
        try:
            return action()
        except DamageError:
            time.sleep(_PAUSE_SECONDS * 2**attempt)
    return action()
