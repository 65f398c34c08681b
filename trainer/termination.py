"""Signals that end a run: SIGTERM of a machine that is taken away, and SIGINT of Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

# What Python does with each unless a program says otherwise.
_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class Termination:
    """Remembers SIGTERM and SIGINT, rather than ending at once, until the context is left.

    Ctrl-C after either of them does end the run at once, with KeyboardInterrupt. Only in the main
    thread, where Python allows it, and only where a signal has its default action: a program that
    handles or ignores it keeps doing so.

    Args:
        on_asked: Called when the first signal comes.

    Attributes:
        asked: The first signal that has come.
    """

    def __init__(self, on_asked: Callable[[signal.Signals], None]) -> None:
        self.asked: signal.Signals | None = None
        self._on_asked = on_asked
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            for number, default in _DEFAULTS.items():
                if signal.getsignal(number) is default:
                    signal.signal(number, self._remember)
                    self._taken.append(number)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in self._taken:
            signal.signal(number, _DEFAULTS[number])

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.asked is None:
            self.asked = signal.Signals(number)
            self._on_asked(self.asked)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
