"""Progress bars that several threads update."""

from __future__ import annotations

import threading
import time

from cli.console import Bars

_SHOW_SECONDS = 0.1  # an update takes as long as hashing 100 kB, and holds the interpreter's lock


class SharedBars:
    """Bars for threads that report every block: some updates of a stage are not shown.

    Args:
        bars: Where they are shown.
    """

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._lock = threading.Lock()
        self._next = ("", 0.0)  # a stage, and when its next update is shown

    def update(self, stage: str, done: float, total: float | None, unit: str) -> None:
        """See Bars."""
        with self._lock:
            now = time.monotonic()
            known, due = self._next
            if known == stage and now < due and done != total:
                return
            self._next = (stage, now + _SHOW_SECONDS)
            self._bars.update(stage, done, total, unit)
