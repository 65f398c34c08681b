"""A time limit on a call of C code, which cannot be interrupted.

Every calling thread has one helper thread, started by its first call and reused. A call that takes
too long is abandoned together with its helper, which keeps its memory until the C code returns, and
then ends. It is a daemon, so it never keeps a process alive.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from beam_jobs.corpus.record import Rejection

T = TypeVar("T")
# A function for a helper, and where its result goes.
_Call = tuple[Callable[[], Any], Future[Any]]

# The limit is on the CPU time of the helper, so that a busy machine rejects nothing that an idle
# one accepts. A decoder that waits, or computes in threads of its own, is stopped after this many
# times the limit of wall-clock time.
_WALL_FACTOR = 10

_local = threading.local()


def within(seconds: float, function: Callable[[], T]) -> T:
    """Returns or raises what the function does, unless it takes longer.

    Args:
        seconds: The limit, in CPU seconds of the thread that runs it; above 0.
        function: Called in another thread, one call at a time for every calling thread.

    Raises:
        Rejection: "too-slow", it took longer.
    """
    helper: _Helper | None = getattr(_local, "helper", None)
    if helper is None or not helper.thread.is_alive():  # not alive: this process is a fork
        helper = _local.helper = _Helper()
    result: Future[T] = Future()
    helper.calls.put((function, result))
    if not _wait(result, helper, seconds):
        # The next call gets a new helper; this one ends after its present call.
        del _local.helper
        helper.close()
        raise Rejection("too-slow", f"decoding it takes more than --time-limit {seconds:g} seconds")
    return result.result()


def _wait(result: Future[Any], helper: _Helper, seconds: float) -> bool:
    """Whether there is a result before the time is over."""
    begun_wall, begun_cpu = time.monotonic(), helper.cpu_seconds()
    left = seconds
    while not wait([result], left).done:
        wall = time.monotonic() - begun_wall
        cpu = helper.cpu_seconds()
        used = wall if cpu is None or begun_cpu is None else cpu - begun_cpu
        left = min(seconds - used, _WALL_FACTOR * seconds - wall)
        if left <= 0:
            return result.done()
        left = max(left, 0.001)  # a shorter wait would only spin
    return True


class _Helper:
    """A daemon thread that runs calls one after another, and ends with the thread it belongs to.

    `_local` of that thread refers to it, and drops it when that thread ends.
    """

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        # The thread must not refer to this object, or the object would never be freed.
        self.thread = threading.Thread(
            target=_serve, args=(self.calls,), daemon=True, name="shardmill-decode"
        )
        self.thread.start()
        self.close = weakref.finalize(self, self.calls.put, None)

    def cpu_seconds(self) -> float | None:
        """CPU time of the thread so far; None where the system does not report it."""
        try:
            return time.clock_gettime(time.pthread_getcpuclockid(self.thread.ident or 0))
        except (AttributeError, OSError):
            return None


def _serve(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        function, result = call
        try:
            result.set_result(function())
        except BaseException as error:  # raised again in the waiting thread
            result.set_exception(error)
        del call, function, result  # an idle helper must not keep the result in memory
