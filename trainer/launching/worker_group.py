"""The workers of a synchronous run: --local-workers.

None of them can be replaced during the run: when one is lost, the others end too, and with
--restarts all begin again at the last checkpoint.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType

from foundation.processes.signals import handling
from trainer.errors import WORKERS_LOST
from trainer.launching.cluster_processes import (
    GRACE_SECONDS,
    LOOK_SECONDS,
    ClusterProcesses,
    ClusterTask,
    logs_folder,
)
from trainer.options import TrainOptions

# For a worker that hangs after a signal: within 10 s of it the run has ended, unless a checkpoint
# takes longer.
_STOPPED_GRACE_SECONDS = 3.0
_EXPECTED = (0, WORKERS_LOST, 130, 143)  # ends that need no explanation


class WorkerGroup:
    """The workers of a run.

    Args:
        options: Options of the run.
        program: Command of every worker.
        gpus: GPUs of each worker; None where there is none.
        on_line: Function called with a line for each worker that ended.

    Attributes:
        restarts_left: How often all may be started again.
        everybody: The workers in messages.
        has_result: Whether worker 0 has printed its result or its error.
    """

    def __init__(
        self,
        options: TrainOptions,
        program: Sequence[str],
        gpus: Sequence[Sequence[str]] | None,
        on_line: Callable[[str], None],
    ) -> None:
        self._count = options.local_workers or 1
        self.restarts_left = options.restarts
        self.everybody = f"all {self._count} workers"
        self.has_result = False
        self._options, self._program, self._on_line = options, program, on_line
        self._logs = logs_folder(options.run_dir)
        self._gpus = {
            ClusterTask("worker", index): ",".join(names) for index, names in enumerate(gpus or ())
        }
        self._signal: int | None = None  # that came first

    def run(self) -> int:
        """Runs all workers until they have ended, and returns the exit code of the run."""
        counts = {"worker": self._count}
        processes = ClusterProcesses(self._program, counts, self._logs, self._gpus)

        def pass_on(number: int, frame: FrameType | None) -> None:
            self._signal = self._signal or number
            processes.send_signal(number)

        with handling(pass_on, signal.SIGINT, signal.SIGTERM):
            try:
                for task in processes.tasks:
                    processes.start(task)
                self._wait(processes)
            finally:
                for task, process in processes.items():
                    if process.poll() is None:
                        what = "has nothing to save" if self._signal else "hangs"
                        self._on_line(f"{task.name} {what}; it is killed")
                        process.kill()
        return self._result(processes)

    def _wait(self, processes: ClusterProcesses) -> None:
        """Waits until all have ended, or one failed and the others had the time to say so."""
        end = float("inf")
        # The others notice by themselves, and say which one; they get the time for that.
        noticing = 2 * self._options.worker_timeout + GRACE_SECONDS
        while True:
            codes = [process.poll() for process in processes.values()]
            running = codes.count(None)
            if not running:
                return
            if any(codes) and end == float("inf"):
                end = time.monotonic() + noticing
            if self._signal and running < len(codes):
                # All stop at one step, and the chief's checkpoint is whole by then. One that
                # cannot come to it, since another had not begun, has nothing to save.
                end = min(end, time.monotonic() + _STOPPED_GRACE_SECONDS)
            if codes.count(WORKERS_LOST) == len(codes) - running and any(codes):
                end = min(end, time.monotonic() + GRACE_SECONDS)  # the rest hangs
            if time.monotonic() >= end:
                return
            time.sleep(LOOK_SECONDS)

    def _result(self, processes: ClusterProcesses) -> int:
        """Returns the exit code of the run, after lines on workers that failed."""
        codes = {task: process.poll() or 0 for task, process in processes.items()}
        first, *others = codes
        for task, code in codes.items():
            # What worker 0 says of an error is in the terminal.
            if code < 0 or (task in others and code not in _EXPECTED):
                self._on_line(processes.describe_end(task, code))
        self.has_result |= codes[first] >= 0 and codes[first] != WORKERS_LOST
        errors = [code for code in codes.values() if code > 0 and code != WORKERS_LOST]
        if errors or not any(codes.values()):
            return next(iter(errors), 0)
        return 128 + self._signal if self._signal else WORKERS_LOST
