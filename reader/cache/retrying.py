"""A second and a third try, for what fails now and then: networks, object stores."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5  # before the second attempt, then twice as long


def retried(
    action: Callable[[], Result],
    errors: tuple[type[Exception], ...],
    on_error: Callable[[], None] = lambda: None,
) -> Result:
    """What an action returns, the third time at the latest.

    Args:
        action: Must leave nothing behind when it fails that a further call would mind.
        errors: What may pass. A file that is not there will not come, so that is raised at once.
        on_error: Called before every further try.
    """
    for attempt in range(_ATTEMPTS - 1):
        try:
            return action()
        except FileNotFoundError:
            raise
        except errors:
            time.sleep(_PAUSE_SECONDS * 2**attempt)
            on_error()
    return action()
