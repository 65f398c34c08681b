"""Requests in flight: many at a time, since each one waits 10 to 100 ms for its first byte."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

# Of one reader. At 30 ms a request and 100 kB an image, 32 requests give 1,000 images a second.
MAX_REQUESTS = 32
MAX_BYTES = 32 << 20  # 32 MiB
# Of one process. Threads wait, outside of the interpreter's lock, nearly all the time.
_MAX_THREADS = 128

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def start(request: Callable[[], Result]) -> Future[Result]:
    """Starts a request; it must not start others and wait for them.

    Waiting for a future is interrupted by Ctrl-C, which a request itself is not.
    """
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="storage")
        return _pool.submit(request)


def in_order(requests: Iterable[tuple[int, Callable[[], Result]]]) -> Iterator[Result]:
    """The results of (bytes, request) in their order, while the next are in flight.

    Args:
        requests: Taken as results are, so that never more than MAX_REQUESTS with MAX_BYTES, or one
            that is larger, wait here.
    """
    waiting: deque[tuple[int, Future[Result]]] = deque()
    held = 0
    try:
        for size, request in requests:
            while waiting and (len(waiting) >= MAX_REQUESTS or held + size > MAX_BYTES):
                first, future = waiting.popleft()
                held -= first
                yield future.result()
            waiting.append((size, start(request)))
            held += size
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        for _, future in waiting:
            future.cancel()


def _after_fork() -> None:
    """A forked process has no threads of its parent's."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
