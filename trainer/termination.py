"""SIGTERM: a machine is about to be taken away, and says so some seconds before."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

# What shells report of a process that SIGTERM ended: 128 + 15. Schedulers know it.
EXIT_CODE = 128 + signal.SIGTERM


class Termination:
    """Remembers a SIGTERM, rather than dying of it, until the context is left.

    Only in the main thread, where Python allows it, and only where the signal has its default
    action: a program that handles or ignores SIGTERM keeps doing so.

    Attributes:
        asked: True once the signal has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._taken = False

    def __enter__(self) -> Termination:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._remember)
            self._taken = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._taken:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
