"""SIGINT to the launcher alone, as from a supervisor: its worker processes get it too."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import psutil

_WORKER = "apache_beam.runners.worker.sdk_worker_main"  # in the command of a worker process


@contextlib.contextmanager
def workers_get_interrupts() -> Iterator[None]:
    """Within this context, Ctrl-C ends the worker processes, for whose end Beam would wait.

    A terminal sends it to them as well. A handler that somebody else has set is left as it is.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end_workers)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_workers(number: int, frame: FrameType | None) -> None:
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(_WORKER in part for part in child.cmdline()):
                child.send_signal(number)
    signal.default_int_handler(number, frame)
