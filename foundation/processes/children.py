"""Child processes: started in sessions of their own, ended with their parent, with their logs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from foundation.errors import file_error

# Becomes the command once its parent's end ends it. It is a program and no function of `Popen` that
# runs in a fork: clients such as that of HDFS have threads whose locks block a fork for ever.
_DYING_WITH_PARENT = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, {int(signal.SIGTERM)})  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("The parent process has ended.")
os.execvp(sys.argv[2], sys.argv[2:])
"""
_POLL_SECONDS = 0.05
_TAIL_BYTES = 20_000


class ChildProcess:
    """A command in a session of its own, which ends with this process at the latest (Linux).

    A terminal sends Ctrl-C to the parent alone, which decides what its children get. When the
    thread that started a child ends, as when the parent is killed, the kernel sends SIGTERM to the
    child.

    Args:
        command: Program and arguments.
        log: File that the output is appended to; None for the streams of the parent.
        environment: Variables in addition to those of the parent.
        cores: Cores that the process may run on; empty for all.
        kept_open: File descriptors that it inherits.
        grace: Seconds between `stop` and the kill of a process that still runs.

    Attributes:
        log: File of the output.
        started: Time of the start, of `time.monotonic`.

    Raises:
        InputError: The log cannot be written.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path | None,
        environment: Mapping[str, str],
        *,
        cores: Sequence[int] = (),
        kept_open: Sequence[int] = (),
        grace: float,
    ) -> None:
        self.log = log
        self.started = time.monotonic()
        self._grace = grace
        self._kill_at = float("inf")
        self._log_start = 0

        if sys.platform == "linux":
            launcher = [sys.executable, "-I", "-S", "-c", _DYING_WITH_PARENT, str(os.getpid())]
            command = [*launcher, *command]
        with contextlib.ExitStack() as stack:
            output = None
            try:
                if log is not None:
                    log.parent.mkdir(parents=True, exist_ok=True)
                    output = stack.enter_context(open(log, "ab"))
                    self._log_start = output.tell()
                self._process = subprocess.Popen(
                    command,
                    env={**os.environ, **environment},
                    stdin=None if output is None else subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=kept_open,
                )
                if cores:  # before it has threads
                    os.sched_setaffinity(self._process.pid, cores)
            except OSError as error:
                raise file_error(error, str(log or command[0])) from error

    def poll(self) -> int | None:
        """Returns the exit code; None while the process runs. Kills it after the grace period."""
        if time.monotonic() >= self._kill_at:
            self._process.kill()
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        """Sends a signal, if the process still runs."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Sends SIGTERM, once; `poll` kills the process after the grace period."""
        if self._kill_at == float("inf") and self._process.poll() is None:
            self._kill_at = time.monotonic() + self._grace
            self._process.terminate()

    def kill(self) -> None:
        """Kills the process and waits for its end."""
        self._process.kill()
        self._process.wait()

    def last_lines(self) -> list[str]:
        """Returns the last lines of this process in its log, without empty ones."""
        if self.log is None:
            return []
        with open(self.log, "rb") as file:
            file.seek(max(self._log_start, self.log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return [stripped for line in lines if (stripped := line.strip())]


def wait_for_all(processes: Iterable[ChildProcess], timeout: float = float("inf")) -> None:
    """Waits until all processes have ended, or the timeout in seconds is over."""
    running, end = list(processes), time.monotonic() + timeout
    while (running := [one for one in running if one.poll() is None]) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def cause_of_end(code: int | None) -> str:
    """Returns what an exit code stands for: "SIGKILL" or "exit code 3"."""
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
