"""The chief, workers and parameter servers of an asynchronous run: --parameter-servers.

A worker that is lost is started again while the others train; where the chief or a parameter server
is lost, all begin again at the last checkpoint.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType

from foundation.processes.children import ChildProcess, cause_of_end, wait_for_all
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

_MISTAKES = (2, 3, 4)  # exit codes that a restart would repeat
_CHIEF = ClusterTask("chief", 0)


class ServerGroup:
    """The processes of a run.

    Args:
        options: Options of the run.
        program: Command of every process.
        gpus: GPUs of each worker; None where there is none.
        on_line: Function called with a line for each process that ended or starts again.

    Attributes:
        restarts_left: How often a process, or all, may be started again.
        everybody: The processes in messages.
        has_result: Whether the chief has printed its result or its error.
    """

    def __init__(
        self,
        options: TrainOptions,
        program: Sequence[str],
        gpus: Sequence[Sequence[str]] | None,
        on_line: Callable[[str], None],
    ) -> None:
        self.restarts_left = options.restarts
        self.everybody = "all processes"
        self.has_result = False
        self._program, self._on_line = program, on_line
        self._logs = logs_folder(options.run_dir)
        workers, servers = options.local_workers or 1, options.parameter_servers or 1
        self._counts = {"chief": 1, "worker": workers, "ps": servers}
        self._gpus = {
            ClusterTask("worker", number): names[0] for number, names in enumerate(gpus or ())
        }
        if gpus:  # which only the workers use
            self._gpus |= {ClusterTask("ps", number): "-1" for number in range(servers)}
            self._gpus[_CHIEF] = "-1"

    def run(self) -> int:
        """Runs all processes until they have ended, and returns the exit code of the run."""
        processes = ClusterProcesses(self._program, self._counts, self._logs, self._gpus)

        def pass_on(number: int, frame: FrameType | None) -> None:
            if _CHIEF in processes:  # which writes a checkpoint, and ends the others
                processes[_CHIEF].send_signal(number)

        with handling(pass_on, signal.SIGINT, signal.SIGTERM):
            try:
                for task in processes.tasks:
                    processes.start(task)
                return self._wait(processes)
            finally:
                _end_all(processes)
                code = processes[_CHIEF].poll() if _CHIEF in processes else None
                self.has_result |= code is not None and code >= 0 and code != WORKERS_LOST

    def _wait(self, processes: ClusterProcesses) -> int:
        """Returns the exit code of the chief, or of a process without which it cannot continue."""
        reported: set[ChildProcess] = set()
        awaited = set(processes.tasks)  # by the chief, before the first step
        while True:
            awaited -= {task for task in awaited if processes.listens(task)}
            code = processes[_CHIEF].poll()
            if code is not None:
                if code < 0:
                    self._on_line(f"{_CHIEF.name} ended by {cause_of_end(code)}")
                return WORKERS_LOST if code < 0 else code
            for task, process in list(processes.items()):
                code = process.poll()
                if not code or process in reported:
                    continue
                reported.add(process)
                self._on_line(processes.describe_end(task, code))
                if code in _MISTAKES:
                    return code
                if task.job == "worker" and self.restarts_left:
                    self.restarts_left -= 1
                    left = f"({self.restarts_left} restarts left)"
                    self._on_line(f"{task.name} starts again {left}")
                    processes.start(task)
                elif task in awaited:
                    return WORKERS_LOST
            if all(processes[task].poll() for task in processes.tasks if task.job == "worker"):
                return WORKERS_LOST
            time.sleep(LOOK_SECONDS)


def _end_all(processes: ClusterProcesses) -> None:
    """Ends what has not ended by itself: the chief has asked all that it could reach to end."""
    if _CHIEF in processes and processes[_CHIEF].poll() == 0:
        wait_for_all(processes.values(), GRACE_SECONDS)
    for process in processes.values():
        process.stop()
    wait_for_all(processes.values())
