"""Worker processes of Beam's local engine (`--direct_running_mode=multi_processing`).

Beam sees that one has died by the end of its connections. It waits without end for one that dies
before it has connected, and, when the job has ended, for one that connects only then. Here the end
of a process ends the job, and the end of the job every process.
"""

from __future__ import annotations

import contextlib
import threading

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from typing_extensions import override

from beam_jobs.engine.processes import LOST_WORKER
from shard_format import InputError

# What Beam raises when a worker's data has ended too early, and gets here for what it asked.
_LOST = "Channel closed prematurely"


def lost_worker(error: Exception) -> InputError | None:
    """Returns the error for a worker process that died; None for another error of Beam."""
    return InputError(LOST_WORKER) if _LOST in str(error) else None


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WatchedWorker(worker_handlers.SubprocessSdkWorkerHandler):
    """A worker process whose end fails what the engine waits for; it is in the place of Beam's."""

    @override
    def start_worker(self) -> None:
        super().start_worker()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @override
    def stop_worker(self) -> None:
        self._stopped.set()
        self.control_conn.push(worker_handlers.BeamFnControlServicer._DONE_MARKER)
        super().stop_worker()

    def _watch(self) -> None:
        self.worker_thread.join()  # it waits for the process
        self.data_conn.close()
        while not self._stopped.wait(1):  # more than once: the engine may be about to ask
            with contextlib.suppress(RuntimeError):  # it asks while the questions are counted
                self.control_conn.abort(RuntimeError(_LOST))
