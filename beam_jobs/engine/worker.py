"""Worker processes of the local engine; `engine.processes` starts this module as a program.

It loads the code of the job once and forks the workers, which share what was loaded. A worker takes
elements from a connection of its own until the launcher closes it.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection

from beam_jobs.engine.processes import KEEP, READY, Failure, Request
from beam_jobs.memory import release_memory
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.work import Work, count_nothing
from shard_format import ShardmillError


def main() -> None:
    """Arguments: the name of the record type, KEEP or FREE, a descriptor for each worker."""
    record_type, memory, *descriptors = sys.argv[1:]
    # A terminal sends Ctrl-C to workers too; the launcher decides when they end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ = RECORD_TYPES[record_type]  # loads its kernels
    gc.collect()
    gc.freeze()  # the pages of what is loaded stay shared
    own = [int(descriptor) for descriptor in descriptors]
    for number, descriptor in enumerate(own):
        if os.fork() == 0:
            # Each worker has one end, so that the launcher notices if it dies.
            for other in own[number + 1 :]:
                os.close(other)
            with contextlib.suppress(EOFError, ConnectionError):  # the launcher closed its own
                _serve(Connection(descriptor), keeps=memory == KEEP)
            os._exit(0)
        os.close(descriptor)
    for _ in own:
        os.wait()


def _serve(connection: Connection, *, keeps: bool) -> None:
    """Does what comes, until the launcher closes its end.

    Args:
        connection: To the launcher.
        keeps: Whether memory is kept until a step ends, see `processes.KEPT_MEMORY`.
    """
    threading.Thread(target=_end_with_launcher, name="launcher", daemon=True).start()
    work: Work | None = None
    connection.send(READY)
    while True:
        request: Request | None = connection.recv()
        if request is not None:
            is_first = work is None  # of a step
            work = work or copy.copy(request.work)
            done = _done(work, request.element, is_first)
            if not keeps:
                release_memory()
            connection.send(done)
            continue
        if work is not None:
            work.finish()
            work = None
        release_memory()
        connection.send(READY)


def _done(work: Work, element: object, is_first: bool) -> list[object] | Failure:
    try:
        if is_first:
            work.setup(count_nothing)
        return list(work.process(element))
    except ShardmillError as error:
        return Failure(str(error), type(error).__name__)
    except Exception as error:
        return Failure(str(error), details=traceback.format_exc())


def _end_with_launcher() -> None:
    """Ends a worker at once if its launcher was killed: nobody else would wait for its result."""
    os.read(sys.stdin.fileno(), 1)  # the launcher has the other end, and never writes
    os._exit(1)


if __name__ == "__main__":
    main()
