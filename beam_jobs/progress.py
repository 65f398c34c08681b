"""Progress on any runner: workers append lines to one file, which the launcher follows.

Beam's own metrics arrive only at the end of a local pipeline. Lines are far shorter than PIPE_BUF
and appended in one write, so they never interleave.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

# (stage, records done, records in all)
OnProgress = Callable[[str, int, int], None]

_POLL_SECONDS = 0.2


def report(path: Path, stage: str, done: int = 0, total: int = 0) -> None:
    """Adds to the done records, or to the total, of a stage."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{stage} {done} {total}\n".encode())
    finally:
        os.close(descriptor)


class Follower(threading.Thread):
    """Calls back with the sums of all reports, until it is stopped."""

    def __init__(self, path: Path, on_progress: OnProgress) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._on_progress = on_progress
        self._sums: dict[str, list[int]] = {}
        self._position = 0
        self._over = threading.Event()

    def run(self) -> None:
        """Follows the file."""
        while not self._over.wait(_POLL_SECONDS):
            self._poll()
        self._poll()

    def stop(self) -> None:
        """Reads the rest of the file and ends."""
        self._over.set()
        self.join()

    def _poll(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.decode().splitlines():
            stage, done, total = line.split()
            sums = self._sums.setdefault(stage, [0, 0])
            sums[0] += int(done)
            sums[1] += int(total)
        for stage, (done_sum, total_sum) in self._sums.items():
            self._on_progress(stage, done_sum, total_sum)
