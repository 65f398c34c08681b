"""Worker processes of this machine, for local jobs that are worth their start.

Threads share one interpreter: a thread that has ended a kernel may wait until another one has left
Python, and on many cores most of them would. Beam's processes would do too, but each loads Beam and
the job anew. Here one process loads the job and forks the workers (`engine.worker`). They are
started when the work has begun; until they are ready, threads do it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from beam_jobs.memory import SYSTEM_POOL_VARIABLE
from beam_jobs.work import Work
from foundation import errors
from shard_format import InputError

# Corpus size from which processes beat threads; they take half a second of one core to start.
# Measured in docs/decisions/0037-worker-processes.md.
_WORTH_FOR_PYTHON = 16 << 20  # 16 MiB, of kernels that hold the interpreter's lock
_WORTH_FOR_KERNELS = 128 << 20  # 128 MiB, of kernels that release it

# Libraries that start threads when they are loaded: a fork would not copy them.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}

# Kernels of batches take and free arrays of some MiB all the time. If glibc keeps them until a step
# ends (`release_memory`), the pages are not zeroed for each batch anew.
KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # the most that it accepts
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

# Whether a worker keeps memory until a step ends, or frees it after each element.
KEEP, FREE = "keep", "free"

LOST_WORKER = (
    "A worker process was killed before its work was done, perhaps because memory ran out. Run the "
    "same command again; it resumes. Fewer --workers need less memory."
)

# What a worker sends once it is loaded, and when it has ended a step.
READY = "ready"


class Request(NamedTuple):
    """What a worker gets; at the end of a step it gets None.

    Attributes:
        work: What is done in this step; that of its first request is set up.
        element: With what.
    """

    work: Work
    element: Any


class Failure(NamedTuple):
    """What a worker sends in place of a result.

    Attributes:
        message: Message of the error.
        kind: Name of the class of an error that a user can fix; "" for any other.
        details: The traceback of any other.
    """

    message: str
    kind: str = ""
    details: str = ""


def should_use_processes(runs_python: bool, corpus_bytes: int) -> bool:
    """Whether a local job gets worker processes, not threads alone.

    Args:
        runs_python: Whether the kernels hold the interpreter's lock.
        corpus_bytes: Size of the corpus.
    """
    return corpus_bytes >= (_WORTH_FOR_PYTHON if runs_python else _WORTH_FOR_KERNELS)


@contextlib.contextmanager
def worker_processes(
    record_type: str, number: int, *, keep_memory: bool = False
) -> Iterator[WorkerProcesses]:
    """Within this context there are worker processes, soon.

    Args:
        record_type: Name of the record type, whose code they load.
        number: How many.
        keep_memory: Whether they keep memory until a step ends, for kernels of batches.
    """
    pairs = [Pipe() for _ in range(number)]
    descriptors = [theirs.fileno() for _, theirs in pairs]
    environment = {
        **_ONE_THREAD,
        **SYSTEM_POOL_VARIABLE,
        **(KEPT_MEMORY if keep_memory else {}),
        **os.environ,
        # As in this process, where "" is the working directory.
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
    }
    program = [sys.executable, "-P", "-m", "beam_jobs.engine.worker"]
    parent = subprocess.Popen(
        [*program, record_type, KEEP if keep_memory else FREE, *map(str, descriptors)],
        pass_fds=descriptors,
        stdin=subprocess.PIPE,
        env=environment,
    )
    for _, theirs in pairs:
        theirs.close()
    try:
        yield WorkerProcesses([ours for ours, _ in pairs])
    finally:
        for ours, _ in pairs:
            ours.close()
        parent.communicate()  # closes its stdin, which ends workers whatever they do


class WorkerProcesses:
    """Workers that take one element at a time.

    Args:
        connections: To each, over which it says first that it is ready.
    """

    def __init__(self, connections: list[Connection]) -> None:
        self._loading = connections
        self._free: list[Connection] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def one(self) -> Iterator[WorkerProcess | None]:
        """Within this context, a worker that nobody else uses; None if none is ready yet."""
        connection = self._take()
        if connection is None:
            yield None
            return
        # Not given back after an exception, which may have left a result in the connection.
        yield WorkerProcess(connection)
        with self._lock:
            self._free.append(connection)

    def finish_step(self) -> None:
        """Has workers end a step: they report what they did, and free memory."""
        with self._lock:
            for connection in self._free:
                with contextlib.suppress(OSError):
                    connection.send(None)
            self._free = [connection for connection in self._free if _says_ready(connection)]

    def _take(self) -> Connection | None:
        with self._lock:
            loaded = [connection for connection in self._loading if connection.poll()]
            if loaded:
                self._loading = [one for one in self._loading if one not in loaded]
                self._free += filter(_says_ready, loaded)
            return self._free.pop() if self._free else None


def _says_ready(connection: Connection) -> bool:
    """Waits for a worker; false if it died, and the others do its work."""
    try:
        return bool(connection.recv() == READY)
    except (EOFError, OSError):
        return False


class WorkerProcess:
    """One worker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def do(self, work: Work, element: Any) -> list[Any]:
        """Processes an element, and returns its outputs.

        Args:
            work: See Request.
            element: See Request.

        Raises:
            ShardmillError: The work raised it.
            InputError: The worker is gone.
            RuntimeError: The work raised anything else.
        """
        try:
            self._connection.send(Request(work, element))
            done: list[Any] | Failure = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise InputError(LOST_WORKER) from error
        if not isinstance(done, Failure):
            return done
        if done.kind:
            raise getattr(errors, done.kind)(done.message)
        raise RuntimeError(f"A worker process failed: {done.message}\n{done.details}")
