"""The process of a trial: its share of the machine, its end, and what it said last."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from foundation.errors import file_error
from foundation.machine import usable_cores
from foundation.wording import shortened, visible

_GRACE_SECONDS = 120.0  # to write a checkpoint, after which a process counts as hanging
_TAIL_BYTES = 20_000
_REASON_CHARACTERS = 300
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux
# Loaded before any process is forked: a fork while another thread loads a library may hang.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
# How a process ends that was asked to: after a checkpoint, or before it could handle signals.
INTERRUPTED = (128 + signal.SIGTERM, 128 + signal.SIGINT, -signal.SIGTERM, -signal.SIGINT)


class TrialProcess:
    """A running process, in a session of its own: Ctrl-C in the terminal comes to the search alone.

    Args:
        command: Program and arguments.
        log: File that its output is appended to.
        environment: Further variables.
        cores: That it may run on; empty for all.
        kept_open: A file descriptor that it inherits.

    Raises:
        InputError: The log cannot be written.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        cores: Sequence[int],
        kept_open: int,
    ) -> None:
        self._log = log
        self._started = time.monotonic()
        self._asked_at: float | None = None

        def limit() -> None:
            if _LIBC is not None:  # the kernel ends it with the search: SIGTERM, so it saves
                _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
            if cores:
                os.sched_setaffinity(0, cores)

        try:
            with open(log, "ab") as file:
                self._log_begin = file.tell()
                self._process = subprocess.Popen(
                    command,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                    pass_fds=(kept_open,),
                    preexec_fn=limit,
                )
        except OSError as error:
            raise file_error(error, str(log)) from error

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._started

    def poll(self) -> int | None:
        """Its exit code; None while it runs. One that does not end when asked to is killed."""
        if self._asked_at is not None and time.monotonic() - self._asked_at > _GRACE_SECONDS:
            self._process.kill()
        return self._process.poll()

    def stop(self) -> None:
        """Asks it to write a checkpoint and end."""
        if self._asked_at is None and self._process.poll() is None:
            self._asked_at = time.monotonic()
            self._process.terminate()

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.wait()

    def reason(self, code: int) -> str:
        """Why it failed, in one line.

        Args:
            code: Its exit code.
        """
        with open(self._log, "rb") as file:
            file.seek(max(self._log_begin, self._log.stat().st_size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        said = [*filter(None, lines)][-1:]
        if code < 0:
            name = signal.Signals(-code).name
            often = ", as the kernel does when memory runs out" if code == -signal.SIGKILL else ""
            return f"ended by {name}{often}"
        found = (errors or said or ["it printed nothing"])[-1]
        return shortened(visible(found), _REASON_CHARACTERS)


def divided_cores(parallel: int) -> list[list[int]]:
    """The cores of every one of some processes at a time; empty lists where cores cannot be chosen.

    All libraries see this limit: TensorFlow, tf.data, OpenCV and Arrow count the cores that a
    process may run on, and no environment variable is for all of them.
    """
    if parallel == 1 or not hasattr(os, "sched_setaffinity"):
        return [[] for _ in range(parallel)]
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, int(usable_cores() / parallel))
    return [
        [cores[(index * share + offset) % len(cores)] for offset in range(share)]
        for index in range(parallel)
    ]


def environment_of(index: int, parallel: int, gpus: Sequence[str]) -> dict[str, str]:
    """Variables for one of some processes at a time: its GPUs, and threads where cores are common.

    Args:
        index: Of the process.
        parallel: How many there are.
        gpus: What CUDA calls the GPUs that may be used.
    """
    found: dict[str, str] = {}
    if parallel > 1 and not hasattr(os, "sched_setaffinity"):
        threads = str(max(1, int(usable_cores() / parallel)))
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        found |= {name: threads for name in names if name not in os.environ}
    if gpus and parallel > 1:
        own = gpus[index::parallel] or [gpus[index % len(gpus)]]
        found["CUDA_VISIBLE_DEVICES"] = ",".join(own)
        if parallel > len(gpus):  # TensorFlow would take all memory of a GPU for the first process
            found["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    return found
