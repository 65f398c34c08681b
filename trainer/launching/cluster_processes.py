"""The processes of one run on this machine, each with its TF_CONFIG."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from foundation.processes.children import ChildProcess, cause_of_end
from foundation.storage import Place
from trainer.checkpointing.run_dir import WORKERS
from trainer.launching import LAUNCHED
from trainer.workers.cluster import VARIABLE
from trainer.workers.connectivity import listens

LOOK_SECONDS = 0.2
# For a process that hangs or writes, after the others have ended.
GRACE_SECONDS = 10.0
# Below those that Linux gives to outgoing connections and to port 0: a process listens seconds
# after its port was found free, and another one may have got it meanwhile.
_PORTS = range(20_000, 32_768)
_NAMES = {"chief": "the chief", "worker": "worker {}", "ps": "parameter server {}"}


class ClusterTask(NamedTuple):
    """A process of a cluster, as TF_CONFIG names it.

    Attributes:
        job: Role of the process: "chief", "worker" or "ps".
        number: Number of the process among those of its job.
    """

    job: str
    number: int

    @property
    def name(self) -> str:
        """The process in messages."""
        return _NAMES[self.job].format(self.number)


class ClusterProcesses(dict[ClusterTask, ChildProcess]):
    """The processes of a cluster that were started, by task.

    Args:
        program: Command of every process.
        counts: Number of processes of each job; the first process of the first job has the
            terminal.
        logs: Directory of the logs of the others.
        gpus: Value of CUDA_VISIBLE_DEVICES of each process; empty where there is no GPU.

    Attributes:
        tasks: Tasks of the cluster; that of the process with the terminal first.
    """

    def __init__(
        self,
        program: Sequence[str],
        counts: Mapping[str, int],
        logs: Path,
        gpus: Mapping[ClusterTask, str],
    ) -> None:
        self._program, self._logs, self._gpus = program, logs, gpus
        ports = iter(_free_ports(sum(counts.values())))
        self._addresses = {
            job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
        }
        self.tasks = [ClusterTask(job, number) for job in counts for number in range(counts[job])]

    def listens(self, task: ClusterTask) -> bool:
        """Whether a process has its port open."""
        return listens(self._addresses[task.job][task.number])

    def start(self, task: ClusterTask) -> None:
        """Starts a process, or starts it again.

        Raises:
            InputError: Its log cannot be written.
        """
        own = {"type": task.job, "index": task.number}
        name = f"{task.job}-{task.number}"
        config = json.dumps({"cluster": self._addresses, "task": own})
        environment = {LAUNCHED: name, VARIABLE: config}
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[task]
        log = None if task == self.tasks[0] else self._logs / f"{name}.log"
        self[task] = ChildProcess(self._program, log, environment, grace=GRACE_SECONDS)

    def send_signal(self, number: int) -> None:
        """Sends a signal to all processes that run."""
        for process in self.values():
            process.send_signal(number)

    def describe_end(self, task: ClusterTask, code: int) -> str:
        """Returns what a process ended with, and the last line of its log."""
        process = self[task]
        if code < 0:
            return f"{task.name} ended by {cause_of_end(code)}"
        last_line = (process.last_lines() or ["nothing"])[-1]
        return f"{task.name} ended with {cause_of_end(code)}; {process.log} ends with: {last_line}"


def logs_folder(run: Place) -> Path:
    """Where processes of a run write their logs: those of a run at a URL stay on this machine."""
    if isinstance(run, Path):
        return run / WORKERS
    return Path(tempfile.mkdtemp(prefix="shardmill-workers-"))


def _free_ports(count: int) -> list[int]:
    """Returns ports of this machine that nobody listens on, all different."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports
