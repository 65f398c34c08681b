"""Signals that end a run: SIGTERM of a machine that is taken away, and SIGINT of Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

# What Python does with each unless a program says otherwise.
_DEFAULTS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}


class _AtOnce:
    """A handler that ends the process; in a class, so that `Termination` knows it."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say = say

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._say()
        os._exit(128 + number)


@contextlib.contextmanager
def sigterm_ends_at_once(say: Callable[[], None]) -> Iterator[None]:
    """Within this context SIGTERM ends the process with 143, while nothing is to be saved.

    That is before the first steps, where TensorFlow is loaded and graphs are traced for as long as
    a minute, and after the last checkpoint. In between a `Termination` takes the signal.

    Args:
        say: Called before the end.
    """
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _AtOnce(say))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Termination:
    """Remembers SIGTERM and SIGINT, rather than ending at once, until the context is left.

    Ctrl-C after either of them does end the run at once, with KeyboardInterrupt. Only in the main
    thread, where Python allows it, and only where a signal has its default action, or that of
    `sigterm_ends_at_once`: a program that handles or ignores it keeps doing so.

    Args:
        on_asked: Called when the first signal comes.

    Attributes:
        asked: The first signal that has come.
    """

    def __init__(self, on_asked: Callable[[signal.Signals], None]) -> None:
        self.asked: signal.Signals | None = None
        self._on_asked = on_asked
        self._taken: dict[signal.Signals, Any] = {}
        self._has_begun = False

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            for number, default in _DEFAULTS.items():
                before = signal.getsignal(number)
                if before is default or isinstance(before, _AtOnce):
                    signal.signal(number, self._remember)
                    self._taken[number] = before
        return self

    def begin(self) -> None:
        """Steps are done that a checkpoint has to keep."""
        self._has_begun = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._taken.items():
            signal.signal(number, before)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        before = self._taken.get(signal.Signals(number))
        if isinstance(before, _AtOnce) and not self._has_begun:
            before(number, frame)
        if self.asked is None:
            self.asked = signal.Signals(number)
            self._on_asked(self.asked)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
