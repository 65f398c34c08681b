"""The processes of a run, as the variable TF_CONFIG names them.

    {
      "cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
      "task": {"type": "worker", "index": 0}
    }

Kubeflow, Vertex AI and SageMaker set it for every process, some with a chief beside the workers and
with keys of their own, which are ignored.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from shard_format.errors import UsageError

VARIABLE = "TF_CONFIG"
_CHIEFS = ("chief", "master")  # the second is what older schedulers call the first
_IGNORED = ("evaluator",)  # the trainer validates by itself
_WORKER = "worker"


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run, the chief first.

    Attributes:
        addresses: host:port of every worker.
        tasks: (job, index) of every worker, as TensorFlow names it.
        index: Of this process in both.
    """

    addresses: tuple[str, ...]
    tasks: tuple[tuple[str, int], ...]
    index: int

    @property
    def jobs(self) -> dict[str, list[str]]:
        """Addresses by job, as TensorFlow takes them."""
        found: dict[str, list[str]] = {}
        for (job, _), address in zip(self.tasks, self.addresses, strict=True):
            found.setdefault(job, []).append(address)
        return found

    @property
    def others(self) -> tuple[int, ...]:
        """The indexes of all other workers."""
        return tuple(index for index in range(len(self.addresses)) if index != self.index)

    def device_of(self, index: int) -> str:
        """What TensorFlow calls the process of a worker."""
        job, number = self.tasks[index]
        return f"/job:{job}/replica:0/task:{number}"

    def name_of(self, index: int) -> str:
        """What messages call a worker."""
        return f"worker {index} ({self.addresses[index]})"


def cluster_of_environment() -> Cluster:
    """The cluster that TF_CONFIG describes.

    Raises:
        UsageError: It is not set, or does not describe workers with this process among them.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        raise UsageError(
            f"{VARIABLE} is not set, which names the processes of --strategy multi_worker. Run "
            "under a scheduler that sets it, such as Kubeflow, or pass --local-workers 2 to start "
            "the processes on this machine, or --strategy default for one process."
        )
    try:
        config = json.loads(text)
    except ValueError as error:
        raise _malformed(f"it is not JSON: {error}") from error
    config = config if isinstance(config, dict) else {}
    jobs = _jobs(config.get("cluster"))
    chiefs, workers = jobs.get("chief", []), jobs.get(_WORKER, [])
    tasks = (*_numbered("chief", chiefs), *_numbered(_WORKER, workers))
    addresses = (*chiefs, *workers)
    if len(set(addresses)) < len(addresses):
        raise _malformed(f"an address occurs twice in {', '.join(addresses)}")
    task = _task(config.get("task"))
    if task not in tasks:
        raise _malformed(f"task {task[0]} {task[1]} is not in its cluster")
    return Cluster(addresses, tasks, tasks.index(task))


def _jobs(found: Any) -> dict[str, list[str]]:
    """The addresses by job, where a master is called chief."""
    if not isinstance(found, dict):
        raise _malformed('it has no "cluster" with the addresses of the workers')
    jobs: dict[str, list[str]] = {}
    for name, addresses in found.items():
        if not addresses or name in _IGNORED:
            continue
        if name == "ps":
            raise _malformed("it has parameter servers, which --strategy multi_worker has not")
        job = "chief" if name in _CHIEFS else name
        if job not in ("chief", _WORKER) or job in jobs:
            raise _malformed(f"its cluster has the jobs {', '.join(map(str, found))}")
        jobs[job] = [_checked_address(address) for address in addresses]
    if len(jobs.get("chief", ())) > 1:
        raise _malformed("it has several chiefs")
    return jobs


def _checked_address(address: Any) -> str:
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit():
        raise _malformed(f"the address {address!r} is not host:port")
    return str(address)


def _numbered(job: str, addresses: list[str]) -> tuple[tuple[str, int], ...]:
    return tuple((job, number) for number in range(len(addresses)))


def _task(found: Any) -> tuple[str, int]:
    """The job and index of this process."""
    kind = found.get("type") if isinstance(found, dict) else None
    number = str(found.get("index", "")) if isinstance(found, dict) else ""
    if not isinstance(kind, str) or not number.isdigit():
        raise _malformed('it has no "task" with the type and index of this process')
    if kind in _IGNORED:
        raise _malformed("this process is an evaluator, and the chief validates by itself")
    return "chief" if kind in _CHIEFS else kind, int(number)


def _malformed(fact: str) -> UsageError:
    example = (
        '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, "task": {"type": "worker", '
        '"index": 0}}'
    )
    return UsageError(
        f"{VARIABLE} cannot be used: {fact}. Set it for every process to such as '{example}'."
    )
