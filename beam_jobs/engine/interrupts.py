"""Ctrl-C: the launcher ends soon, whatever it waits for, and leaves no worker process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import psutil

from foundation.errors import INTERRUPTED

# A build may be killed at any time, so nothing is lost by an end that does not wait.
END_SECONDS = 1.5
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


@contextlib.contextmanager
def ends_within(seconds: float | None, say: Callable[[], None]) -> Iterator[None]:
    """Within this context, Ctrl-C ends the process and its workers in time, a second one at once.

    A KeyboardInterrupt may be late: it waits for native code in the main thread, and then for all
    that Beam waits for. So a thread waits for the signal too, and ends the process if it is still
    here.

    Args:
        seconds: From the first signal to the end; None to wait, for an engine that must cancel its
            job.
        say: Writes a line for the user, where the process ends in the middle of something.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_end_after, args=(reader, seconds, say), name="interrupts", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _end_after(reader: int, seconds: float | None, say: Callable[[], None]) -> None:
    """Reads the numbers of signals until the other end of the pipe is closed."""
    signals, deadline = 0, None
    while signals < 2:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            break
        numbers = os.read(reader, 64)
        if not numbers:
            return
        signals += numbers.count(signal.SIGINT)
        if signals and deadline is None and seconds is not None:
            deadline = time.monotonic() + seconds
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    say()
    os._exit(INTERRUPTED)
