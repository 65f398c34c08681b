"""Signals that end a run: SIGTERM of a machine that is taken away, and SIGINT of Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from foundation.processes.signals import ExitHandler, ends_process, handling


@contextlib.contextmanager
def exit_on_sigterm(notify: Callable[[], None]) -> Iterator[None]:
    """Within this context SIGTERM ends the process with 143, while nothing is to be saved.

    That is before the first steps, where TensorFlow is loaded and graphs are traced for as long as
    a minute, and after the last checkpoint. In between a `Termination` takes the signal.

    Args:
        notify: Function called before the end.
    """
    with handling(ExitHandler(notify), signal.SIGTERM, replaces=ends_process):
        yield


class Termination(contextlib.ExitStack):
    """Remembers SIGTERM and SIGINT, rather than ending at once, until the context is left.

    Ctrl-C after either of them does end the run at once, with KeyboardInterrupt. Only in the main
    thread, where Python allows it, and only where a signal has its default action, or is an
    `ExitHandler`: a program that handles or ignores it keeps doing so.

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
            handling(self._remember, signal.SIGTERM, signal.SIGINT, replaces=ends_process)
        )
        return self

    def begin(self) -> None:
        """Steps are done that a checkpoint has to keep."""
        self._has_begun = True

    def _remember(self, number: int, frame: FrameType | None) -> None:
        before = self._replaced.get(number)
        if isinstance(before, ExitHandler) and not self._has_begun:
            before(number, frame)
        if self.asked is None:
            self.asked = signal.Signals(number)
            self._on_asked(self.asked)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
