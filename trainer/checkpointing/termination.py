"""Signals that end a run: SIGTERM of a machine that is taken away, and SIGINT of Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from foundation.processes.signals import handling, is_default


class _ExitHandler:
    """A handler that ends the process; in a class, so that `Termination` knows it."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._notify()
        os._exit(128 + number)


@contextlib.contextmanager
def exit_on_sigterm(notify: Callable[[], None]) -> Iterator[None]:
    """Within this context SIGTERM ends the process with 143, while nothing is to be saved.

    That is before the first steps, where TensorFlow is loaded and graphs are traced for as long as
    a minute, and after the last checkpoint. In between a `Termination` takes the signal.

    Args:
        notify: Function called before the end.
    """
    with handling(_ExitHandler(notify), signal.SIGTERM, replaces=is_default):
        yield


class Termination(contextlib.ExitStack):
    """Remembers SIGTERM and SIGINT, rather than ending at once, until the context is left.

    Ctrl-C after either of them does end the run at once, with KeyboardInterrupt. Only in the main
    thread, where Python allows it, and only where a signal has its default action, or that of
    `exit_on_sigterm`: a program that handles or ignores it keeps doing so.

    Args:
        on_asked: Function called when the first signal comes.

    Attributes:
        asked: The first signal that has come.
    """

    def __init__(self, on_asked: Callable[[signal.Signals], None]) -> None:
        super().__init__()
        self.asked: signal.Signals | None = None
        self._on_asked = on_asked
        self._replaced: dict[int, Any] = {}
        self._has_begun = False

    def __enter__(self) -> Termination:
        self._replaced = self.enter_context(
            handling(self._remember, signal.SIGTERM, signal.SIGINT, replaces=_may_replace)
        )
        return self

    def begin(self) -> None:
        """Steps are done that a checkpoint has to keep."""
        self._has_begun = True

    def _remember(self, number: int, frame: FrameType | None) -> None:
        before = self._replaced.get(number)
        if isinstance(before, _ExitHandler) and not self._has_begun:
            before(number, frame)
        if self.asked is None:
            self.asked = signal.Signals(number)
            self._on_asked(self.asked)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt


def _may_replace(number: int, handler: Any) -> bool:
    return is_default(number, handler) or isinstance(handler, _ExitHandler)
