"""Signal handlers for a block of code, and the end of a process that does not wait for threads."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

Handler = Callable[[int, FrameType | None], Any]

_DEFAULTS: dict[int, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class ExitHandler:
    """A handler that ends the process at once, with the exit code that shells report.

    Args:
        notify: Function called before the end. It writes past Python's buffers: the signal may
            have come in the middle of a write.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Ends the process because of a signal."""
        self._notify()
        os._exit(128 + number)


def ends_process(number: int, handler: Any) -> bool:
    """Whether a signal ends the process, by the default of Python or by an `ExitHandler`."""
    return handler is _DEFAULTS[number] or isinstance(handler, ExitHandler)


@contextlib.contextmanager
def handling(
    handler: Handler,
    *numbers: int,
    replaces: Callable[[int, Any], bool] = lambda number, handler: True,
) -> Iterator[dict[int, Any]]:
    """Within this context signals go to a handler, afterwards to those that they went to before.

    In threads other than the main one it does nothing, since Python runs handlers in that one.

    Args:
        handler: Function that gets the number of the signal and the frame.
        numbers: Signals.
        replaces: Whether the handler of a signal, given with its number, is replaced.

    Yields:
        The handlers that were replaced, by number of the signal.
    """
    replaced: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in numbers}
        replaced = {number: known for number, known in before.items() if replaces(number, known)}
    for number in replaced:
        signal.signal(number, handler)
    try:
        yield replaced
    finally:
        for number, known in replaced.items():
            signal.signal(number, known)


def exit_now(code: int) -> NoReturn:
    """Flushes the standard streams and ends the process, whatever its other threads do.

    Threads of TensorFlow and Beam may run on, and would abort an exit that waits for them. For a
    signal handler there is `ExitHandler`.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            stream.flush()
    os._exit(code)
