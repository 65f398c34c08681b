"""The processes of a run, as the variable TF_CONFIG names them.

    {
      "cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
      "task": {"type": "worker", "index": 0}
    }

Kubeflow, Vertex AI and SageMaker set it for every process, some with a chief in addition to the
workers and with keys of their own, which are ignored. Under --strategy parameter_server it has a
chief, workers, and parameter servers as "ps".
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from foundation.errors import UsageError

VARIABLE = "TF_CONFIG"
_CHIEFS = ("chief", "master")  # the second is what older schedulers call the first
_IGNORED = ("evaluator",)  # the trainer validates by itself
_WORKER = "worker"
_SERVER = "ps"
_EXAMPLES = {
    "multi_worker": '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, "task": {"type": '
    '"worker", "index": 0}}',
    "parameter_server": '{"cluster": {"chief": ["HOST:PORT"], "worker": ["HOST:PORT", '
    '"HOST:PORT"], "ps": ["HOST:PORT"]}, "task": {"type": "worker", "index": 0}}',
}


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The processes of a run: the chief, the workers, and the parameter servers if there are any.

    Attributes:
        addresses: host:port of every process.
        tasks: (job, index) of every process, as TensorFlow names it.
        index: Index of this process in both.
    """

    addresses: tuple[str, ...]
    tasks: tuple[tuple[str, int], ...]
    index: int

    @property
    def jobs(self) -> dict[str, list[str]]:
        """Addresses by job, as TensorFlow takes them."""
        addresses: dict[str, list[str]] = {}
        for (job, _), address in zip(self.tasks, self.addresses, strict=True):
            addresses.setdefault(job, []).append(address)
        return addresses

    @property
    def others(self) -> tuple[int, ...]:
        """The indexes of all other workers."""
        return tuple(index for index in range(len(self.addresses)) if index != self.index)

    def device_of(self, index: int) -> str:
        """What TensorFlow calls the process of a worker."""
        job, number = self.tasks[index]
        return f"/job:{job}/replica:0/task:{number}"

    def name_of(self, index: int) -> str:
        """What messages call a process."""
        job, number = self.tasks[index]
        if _SERVER not in self.jobs:
            name = f"worker {index}"
        else:
            name = {"chief": "the chief", _SERVER: f"parameter server {number}"}.get(
                job, f"worker {number}"
            )
        return f"{name} ({self.addresses[index]})"

    def of_job(self, job: str) -> tuple[int, ...]:
        """The indexes of all processes of a job."""
        return tuple(index for index, task in enumerate(self.tasks) if task[0] == job)


def cluster_of_environment(strategy: str = "multi_worker") -> Cluster:
    """The cluster that TF_CONFIG describes.

    Args:
        strategy: "multi_worker", or "parameter_server", which needs a chief, workers and parameter
            servers.

    Raises:
        UsageError: It is not set, or does not describe workers with this process among them.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        started = "--local-workers 2"
        if strategy == "parameter_server":
            started += " --parameter-servers 1"
        raise UsageError(
            f"{VARIABLE} is not set, which names the processes of --strategy {strategy}. Run "
            f"under a scheduler that sets it, such as Kubeflow, or pass {started} to start "
            "the processes on this machine, or --strategy default for one process."
        )
    try:
        return _cluster(text, strategy == "parameter_server")
    except _Malformed as error:
        raise UsageError(
            f"{VARIABLE} cannot be used: {error}. Set it for every process to such as "
            f"'{_EXAMPLES[strategy]}'."
        ) from error


class _Malformed(Exception):
    """What is wrong with a TF_CONFIG."""


def _cluster(text: str, has_servers: bool) -> Cluster:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise _Malformed(f"it is not JSON: {error}") from error
    config = config if isinstance(config, dict) else {}
    jobs = _jobs(config.get("cluster"), has_servers)
    names = ("chief", _WORKER, _SERVER)
    if has_servers and not all(jobs.get(name) for name in names):
        lacking = next(name for name in names if not jobs.get(name))
        raise _Malformed(f"its cluster has no {lacking!r}, which parameter servers need")
    tasks = tuple(task for name in names for task in _numbered(name, jobs.get(name, [])))
    addresses = tuple(address for name in names for address in jobs.get(name, []))
    if len(set(addresses)) < len(addresses):
        raise _Malformed(f"an address occurs twice in {', '.join(addresses)}")
    task = _task(config.get("task"))
    if task not in tasks:
        raise _Malformed(f"task {task[0]} {task[1]} is not in its cluster")
    return Cluster(addresses, tasks, tasks.index(task))


def _jobs(cluster: Any, has_servers: bool) -> dict[str, list[str]]:
    """The addresses by job, where a master is called chief."""
    if not isinstance(cluster, dict):
        raise _Malformed('it has no "cluster" with the addresses of the workers')
    jobs: dict[str, list[str]] = {}
    for name, addresses in cluster.items():
        if not addresses or name in _IGNORED:
            continue
        if name == _SERVER and not has_servers:
            raise _Malformed("it has parameter servers, which need --strategy parameter_server")
        job = "chief" if name in _CHIEFS else name
        if job not in ("chief", _WORKER, _SERVER) or job in jobs:
            raise _Malformed(f"its cluster has the jobs {', '.join(map(str, cluster))}")
        jobs[job] = [_checked_address(address) for address in addresses]
    if len(jobs.get("chief", ())) > 1:
        raise _Malformed("it has several chiefs")
    return jobs


def _checked_address(address: Any) -> str:
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise _Malformed(f"the address {address!r} is not host:port")
    return str(address)


def _numbered(job: str, addresses: list[str]) -> tuple[tuple[str, int], ...]:
    return tuple((job, number) for number in range(len(addresses)))


def _task(task: Any) -> tuple[str, int]:
    """The job and index of this process."""
    kind = task.get("type") if isinstance(task, dict) else None
    number = str(task.get("index", "")) if isinstance(task, dict) else ""
    if not isinstance(kind, str) or not number.isdigit():
        raise _Malformed('it has no "task" with the type and index of this process')
    if kind in _IGNORED:
        raise _Malformed("this process is an evaluator, and the chief validates by itself")
    return "chief" if kind in _CHIEFS else kind, int(number)
