"""Operations that are tried again after an error that may pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

Result = TypeVar("Result")


def retry(
    operation: Callable[[], Result],
    pauses: Iterable[float],
    is_temporary: Callable[[Exception], bool],
) -> Result:
    """Returns the result of an operation, which is called again while it fails.

    Args:
        operation: Function that leaves nothing behind where it fails.
        pauses: Seconds before each further attempt.
        is_temporary: Whether an error may pass; any other is raised at once.
    """
    for seconds in pauses:
        try:
            return operation()
        except Exception as error:
            if not is_temporary(error):
                raise
        time.sleep(seconds)
    return operation()
