"""Ctrl-C: the launcher ends soon, whatever it waits for, and leaves no worker process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator

import psutil

from foundation.errors import INTERRUPTED

# A build may be killed at any time, so nothing is lost by an end that does not wait.
END_SECONDS = 1.5
# What was killed is gone in milliseconds, unless the kernel waits for a disk.
_KILLED_SECONDS = 1.0


@contextlib.contextmanager
def exit_on_interrupt(timeout: float | None, notify: Callable[[], None]) -> Iterator[None]:
    """Within this context, Ctrl-C ends the process and its workers in time, a second one at once.

    A KeyboardInterrupt may be late: it waits for native code in the main thread, and then for all
    that Beam waits for. So a thread waits for the signal too, and ends the process if it is still
    here.

    Args:
        timeout: Seconds from the first signal to the end; None to wait, for an engine that must
            cancel its job.
        notify: Writes a line for the user, where the process ends in the middle of something.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_exit_after, args=(reader, timeout, notify), name="interrupts", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        watcher.join()
        os.close(reader)


def _exit_after(reader: int, timeout: float | None, notify: Callable[[], None]) -> None:
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
        if signals and deadline is None and timeout is not None:
            deadline = time.monotonic() + timeout
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, _KILLED_SECONDS)
    notify()
    os._exit(INTERRUPTED)
