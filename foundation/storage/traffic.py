"""What this process asked of object stores: requests cost time and money."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple


class Traffic(NamedTuple):
    """Requests, without those that a client repeats by itself, and bytes that came back."""

    requests: int
    received_bytes: int


_lock = threading.Lock()
_requests = _received_bytes = 0


def count(requests: int, received_bytes: int) -> None:
    """Adds to the traffic of this process."""
    global _requests, _received_bytes
    with _lock:
        _requests += requests
        _received_bytes += received_bytes


def traffic() -> Traffic:
    """All traffic since the process began."""
    with _lock:
        return Traffic(_requests, _received_bytes)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
