"""Processes of an engine: started in groups of their own, waited for, and always stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

_START_SECONDS = 180  # for a JVM on a loaded machine
_LOG_TAIL = 3000  # characters


def free_port(address: str = "127.0.0.1") -> int:
    """A port that the system has just found free."""
    with socket.socket() as bound:
        bound.bind((address, 0))
        return int(bound.getsockname()[1])


def listens(address: str, port: int) -> bool:
    """Whether somebody accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


class Processes:
    """The processes of one engine, by name.

    Args:
        logs: A folder; the output of process NAME goes to NAME.log.
    """

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts a process, which leads a new group."""
        with (self.logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def wait_for(self, name: str, ready: Callable[[], bool]) -> None:
        """Waits until a process is ready.

        Raises:
            RuntimeError: It has ended, or takes too long.
        """
        process, deadline = self._running[name], time.monotonic() + _START_SECONDS
        while not ready():
            ended = process.poll()
            if ended is not None or time.monotonic() > deadline:
                tail = (self.logs / f"{name}.log").read_text(errors="replace")[-_LOG_TAIL:]
                what = "is not ready" if ended is None else f"ended with {ended}"
                raise RuntimeError(f"{name} {what}; the end of its log:\n{tail}")
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """SIGKILL to a process and all that it has started."""
        process = self._running.pop(name)
        # Some start sessions of their own, so that the group is not enough.
        children = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        process.wait()

    def pid(self, name: str) -> int:
        """The process id."""
        return self._running[name].pid

    def running(self, name: str) -> bool:
        """Whether a process was started and has not ended."""
        return name in self._running and self._running[name].poll() is None

    def stop(self) -> None:
        """Kills everything that runs: an engine of a test has nothing to save."""
        for name in reversed(list(self._running)):
            self.kill(name)


@contextlib.contextmanager
def processes(logs: Path) -> Iterator[Processes]:
    """Processes that are stopped at the end, also when a test fails."""
    group = Processes(logs)
    try:
        yield group
    finally:
        group.stop()
