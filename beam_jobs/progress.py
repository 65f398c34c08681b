"""Progress on any runner: workers report to the workspace, which the launcher follows.

Beam's own metrics arrive only at the end of a local pipeline. On a shared file system workers
append lines to one file: lines are far shorter than PIPE_BUF and appended in one write, so they
never interleave. In an object store, which cannot append, every process writes its own sums to an
object of its own, every few seconds. Tasks report as long as they run, so that silence means that
no worker is alive.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from foundation import storage
from foundation.storage import Place

# (stage, records done, records in all)
OnProgress = Callable[[str, int, int], None]

_POLL_SECONDS = 0.2
_OBJECT_SECONDS = 2.0  # between two writes of a process, and two looks at all of them
_BEAT_SECONDS = 10.0  # between two reports of a task that has nothing else to say

_BEAT = "beat"  # in place of a stage
# Of stages: records done, records in all.
Sums = dict[str, list[int]]


def report(place: Place, stage: str, done: int = 0, total: int = 0) -> None:
    """Adds to the done records, or to the total, of a stage."""
    path = storage.local_path(place)
    if path is None:
        _reporter(place).add(stage, done, total)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{stage} {done} {total}\n".encode())
    finally:
        os.close(descriptor)


class SteadyReports:
    """Reports the progress of a stage some times a second, and the rest at the end.

    A report takes as long as 1 % of a photograph.

    Args:
        place: See `report`.
        stage: See `report`.
    """

    def __init__(self, place: Place, stage: str) -> None:
        self._place = place
        self._stage = stage
        self._done = 0
        self._reported = time.monotonic()

    def add(self, done: int) -> None:
        """Adds to the progress."""
        self._done += done
        if time.monotonic() - self._reported >= _POLL_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Reports what was not reported yet."""
        report(self._place, self._stage, self._done)
        self._done, self._reported = 0, time.monotonic()


@contextlib.contextmanager
def at_work(place: Place) -> Iterator[None]:
    """Within this context, this process reports that it is alive."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(_BEAT_SECONDS):
            with contextlib.suppress(OSError):
                report(place, _BEAT, 1)

    thread = threading.Thread(target=beat, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def flush(place: Place) -> None:
    """Writes what this process has reported; nothing is written later without another report."""
    with _reporters_lock:
        reporter = _reporters.get(place)
    if reporter is not None:
        reporter.write()


class _Reporter(threading.Thread):
    """Writes the sums of this process to an object, as long as they grow."""

    def __init__(self, folder: Place) -> None:
        super().__init__(name="progress", daemon=True)
        self._place = folder / f"{uuid.uuid4().hex}.json"
        self._sums: Sums = {}
        self._written = ""
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()  # an older write must not come last
        self._over = threading.Event()

    def add(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            sums = self._sums.setdefault(stage, [0, 0])
            sums[0] += done
            sums[1] += total

    def run(self) -> None:
        while not self._over.wait(_OBJECT_SECONDS):
            self.write()

    def write(self) -> None:
        with self._write_lock:
            with self._lock:
                text = json.dumps(self._sums)
            if text == self._written:
                return
            with contextlib.suppress(OSError):  # the next write has the same sums and more
                storage.write_bytes(self._place, text.encode())
                self._written = text

    def end(self) -> None:
        self._over.set()
        self.write()


_reporters: dict[Place, _Reporter] = {}
_reporters_lock = threading.Lock()


def _reporter(folder: Place) -> _Reporter:
    with _reporters_lock:
        if folder not in _reporters:
            reporter = _reporters[folder] = _Reporter(folder)
            reporter.start()
            atexit.register(_end, folder)
        return _reporters[folder]


def _end(folder: Place) -> None:
    """Ends the reports of this process to a folder, after the last write."""
    with _reporters_lock:
        reporter = _reporters.pop(folder, None)
    if reporter is not None:
        reporter.end()


class Follower(threading.Thread):
    """Calls back with the sums of a stage when they have changed, until it is stopped."""

    def __init__(self, place: Place, on_progress: OnProgress) -> None:
        super().__init__(daemon=True)
        self._place = place
        path = storage.local_path(place)
        self._reports = _Objects(place) if path is None else _Lines(path)
        self._on_progress = on_progress
        self._over = threading.Event()
        self._latest: Sums = self._reports.sums()  # of an earlier job, perhaps
        self._shown: Sums = {}
        self._heard = time.monotonic()
        self.has_heard = False  # whether a worker has reported

    @property
    def seconds_silent(self) -> float:
        """Since a worker has last reported, or since the beginning."""
        return time.monotonic() - self._heard

    def run(self) -> None:
        """Follows the reports."""
        while not self._over.wait(self._reports.seconds):
            self._poll()
        _end(self._place)
        self._poll()

    def stop(self) -> None:
        """Reads the rest of the reports and ends."""
        self._over.set()
        self.join()

    def _poll(self) -> None:
        sums = self._reports.sums()
        if sums != self._latest:
            self._latest, self._heard, self.has_heard = sums, time.monotonic(), True
        for stage, (done, total) in sums.items():
            if stage != _BEAT and self._shown.get(stage) != [done, total]:
                self._on_progress(stage, done, total)
        self._shown = sums


class _Lines:
    """The reports in a file."""

    seconds = _POLL_SECONDS

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._sums: Sums = {}

    def sums(self) -> Sums:
        """Of all lines so far."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                text = file.read()
        except FileNotFoundError:
            return {}
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.decode().splitlines():
            stage, done, total = line.split()
            _add(self._sums, stage, int(done), int(total))
        return copy.deepcopy(self._sums)


class _Objects:
    """The reports in a folder of objects, one of each process."""

    seconds = _OBJECT_SECONDS

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._seen: dict[str, tuple[storage.Stat, Sums]] = {}

    def sums(self) -> Sums:
        """Of the latest reports of all processes; objects that have not changed are not read."""
        with contextlib.suppress(OSError):  # the next look sees more
            for name, _, stat, _ in storage.list_folder(self._folder):
                if name not in self._seen or self._seen[name][0] != stat:
                    stages = json.loads(storage.read_bytes(self._folder / name))
                    self._seen[name] = stat, stages
        sums: Sums = {}
        for _, stages in self._seen.values():
            for stage, (done, total) in stages.items():
                _add(sums, stage, done, total)
        return sums


def _add(sums: Sums, stage: str, done: int, total: int) -> None:
    own = sums.setdefault(stage, [0, 0])
    own[0] += done
    own[1] += total
