"""A Flink cluster: JobManager, two TaskManagers with a worker pool each, Beam's job server.

with flink_cluster(folder) as cluster:
    preprocess(options, cluster.beam_args)
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.engines.fetch import fetched
from tests.engines.machines import Machine
from tests.engines.processes import Processes, free_port, listens, processes

TASK_MANAGERS = ("taskmanager1", "taskmanager2")
POOLS = ("pool1", "pool2")
_SLOTS = 2  # of each TaskManager
# Of the JobManager and the job server, and of each TaskManager with its pool.
_HERE = (Machine("127.0.0.1"), Machine("127.0.0.11"), Machine("127.0.0.12"))
_POOL_NAME = "beam-workers"  # each TaskManager resolves it to its own pool

# What Flink's own scripts pass to a JVM of version 17.
_OPENED = (
    *("java.lang", "java.net", "java.io", "java.nio", "java.lang.reflect", "java.text"),
    *("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic"),
    *("java.util.concurrent.locks", "sun.nio.ch"),
)
_MODULES = [
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
]


class FlinkCluster:
    """The running cluster.

    Attributes:
        processes: Its processes: "jobmanager", TASK_MANAGERS, POOLS and "jobserver".
        rest: Address of Flink's web page.
        job_endpoint: Address of the job server.
    """

    def __init__(
        self,
        group: Processes,
        folder: Path,
        machines: Sequence[Machine],
        environment: Mapping[str, str],
    ) -> None:
        self.processes = group
        self._folder = folder
        self._head, *workers = machines
        self._machines = dict(zip(TASK_MANAGERS, workers, strict=True))
        self._machines |= dict(zip(POOLS, workers, strict=True))
        self._environment = environment
        self._rpc, self._rest, self._blob, self._pool, self._job, self._artifacts, self._other = (
            free_port(self._head.address) for _ in range(7)
        )
        self.rest = f"http://{self._head.address}:{self._rest}"
        self.job_endpoint = f"{self._head.address}:{self._job}"

    @property
    def beam_args(self) -> list[str]:
        """What a user passes to Beam."""
        return [
            "--runner=FlinkRunner",
            f"--job_endpoint={self.job_endpoint}",
            "--environment_type=EXTERNAL",
            f"--environment_config={_POOL_NAME}:{self._pool}",
            f"--parallelism={len(TASK_MANAGERS)}",
        ]

    def start(self) -> None:
        """Starts everything and waits until it is ready."""
        self._configure()
        for name in POOLS:
            self.start_pool(name, wait=False)
        self.start_job_manager()
        for name in TASK_MANAGERS:
            self.start_task_manager(name)
        self.start_job_server()
        for name in POOLS:
            self._wait_for_pool(name)
        self.processes.wait_for(
            TASK_MANAGERS[-1], lambda: self.task_managers() == len(TASK_MANAGERS)
        )

    def start_job_manager(self) -> None:
        """Starts the JobManager and waits until its web page answers."""
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        self._java("jobmanager", 256, _flink_jars(), main, "--configDir", str(self._conf))
        self.processes.wait_for("jobmanager", lambda: self.task_managers() >= 0)

    def start_task_manager(self, name: str) -> None:
        """Starts a TaskManager; it may take some seconds until it has registered."""
        hosts = self._folder / f"{name}.hosts"
        own = self._machines[name]
        hosts.write_text(f"127.0.0.1 localhost\n{own.address} {_POOL_NAME}\n")
        main = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
        more = [f"-Djdk.net.hosts.file={hosts}", "-XX:MaxDirectMemorySize=448m"]
        arguments = ["--configDir", str(self._conf), f"-Dtaskmanager.resource-id={name}"]
        arguments += [f"-Dtaskmanager.{key}={own.address}" for key in ("host", "bind-host")]
        with own.entered():
            self._java(name, 384, _flink_jars(), main, *arguments, jvm=more)

    def start_pool(self, name: str, wait: bool = True) -> None:
        """Starts the worker pool of one TaskManager."""
        own = self._machines[name]
        command = [sys.executable, "-m", "tests.engines.worker_pool", own.address, str(self._pool)]
        repository = str(Path(__file__).parents[2])
        with own.entered():
            self.processes.start(name, command, {"PYTHONPATH": repository, **self._environment})
        if wait:
            self._wait_for_pool(name)

    def _wait_for_pool(self, name: str) -> None:
        with self._machines[name].entered():
            self.processes.wait_for(name, lambda: listens(self._machines[name].address, self._pool))

    def start_job_server(self) -> None:
        """Starts Beam's job server and waits until it listens."""
        main, host = "org.apache.beam.runners.flink.FlinkJobServerDriver", self._head.address
        arguments = [
            *(f"--flink-master={host}:{self._rest}", f"--flink-conf-dir={self._conf}"),
            *(f"--job-host={host}", f"--job-port={self._job}"),
            *(f"--artifact-port={self._artifacts}", f"--expansion-port={self._other}"),
            f"--artifacts-dir={self._folder / 'artifacts'}",
        ]
        jars = sorted(str(jar) for jar in fetched("beam-flink").glob("*.jar"))
        self._java("jobserver", 256, jars, main, *arguments)
        self.processes.wait_for("jobserver", lambda: listens(host, self._job))

    def start_again(self, name: str) -> None:
        """Starts a process that was killed."""
        if name in TASK_MANAGERS:
            self.start_task_manager(name)
        elif name in POOLS:
            self.start_pool(name)
        elif name == "jobmanager":
            self.start_job_manager()
        else:
            self.start_job_server()

    def task_managers(self) -> int:
        """How many have registered; -1 without an answer."""
        try:
            return int(self.ask("/overview")["taskmanagers"])
        except (OSError, ValueError, KeyError):
            return -1

    def ask(self, path: str) -> Any:
        """The answer of Flink's REST interface."""
        with urllib.request.urlopen(self.rest + path, timeout=10) as answer:
            return json.load(answer)

    def state_of_last_job(self) -> str:
        """RUNNING, FINISHED, CANCELED or another one of Flink's."""
        return str(self._last_job()["state"])

    def records_by_task_manager(self, stage: str) -> dict[str, int]:
        """How many elements of the last job each TaskManager has read in a stage."""
        counts = dict.fromkeys(TASK_MANAGERS, 0)
        for task in self._subtasks(stage):
            counts[task["taskmanager-id"]] += task["metrics"]["read-records"]
        return counts

    def times_of(self, stage: str) -> list[tuple[int, int]]:
        """(begin, end) in milliseconds of each task of a stage of the last job."""
        return [(task["start-time"], task["end-time"]) for task in self._subtasks(stage)]

    def accumulators(self) -> str:
        """The counters that Flink's web page shows for the last job, as Beam writes them."""
        path = f"/jobs/{self._last_job()['jid']}/accumulators"
        return "".join(one["value"] for one in self.ask(path)["user-task-accumulators"])

    def _last_job(self) -> Any:
        jobs = self.ask("/jobs/overview")["jobs"]
        return max(jobs, key=lambda job: job["start-time"])

    def _subtasks(self, stage: str) -> Any:
        path = f"/jobs/{self._last_job()['jid']}"
        (vertex,) = (v for v in self.ask(path)["vertices"] if f"/{stage})" in v["name"])
        return self.ask(f"{path}/vertices/{vertex['id']}")["subtasks"]

    def _configure(self) -> None:
        self._conf = self._folder / "conf"
        self._conf.mkdir(parents=True, exist_ok=True)
        settings = {
            "jobmanager.rpc.address": self._head.address,
            # It calls itself localhost, and must hear that.
            "jobmanager.bind-host": "0.0.0.0" if self._head.namespace else self._head.address,
            "jobmanager.rpc.port": self._rpc,
            "rest.address": self._head.address,
            "rest.bind-address": self._head.address,
            "rest.port": self._rest,
            "blob.server.port": self._blob,
            # The second slot is for the tasks of the other TaskManager, when that is lost.
            "taskmanager.numberOfTaskSlots": _SLOTS,
            "cluster.evenly-spread-out-slots": "true",
            "io.tmp.dirs": self._folder / "tmp",
            # Flink's scripts would compute these from one total.
            "jobmanager.memory.heap.size": "256m",
            "jobmanager.memory.off-heap.size": "64m",
            "jobmanager.memory.jvm-metaspace.size": "128m",
            "jobmanager.memory.jvm-overhead.min": "64m",
            "jobmanager.memory.jvm-overhead.max": "64m",
            "taskmanager.cpu.cores": float(_SLOTS),
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.task.heap.size": "256m",
            "taskmanager.memory.framework.off-heap.size": "128m",
            "taskmanager.memory.task.off-heap.size": "32m",
            "taskmanager.memory.managed.size": "64m",
            # Room for the tasks of both TaskManagers: with 64m no task of a lost one starts again.
            "taskmanager.memory.network.min": "256m",
            "taskmanager.memory.network.max": "256m",
            "taskmanager.memory.jvm-metaspace.size": "160m",
            "taskmanager.memory.jvm-overhead.min": "64m",
            "taskmanager.memory.jvm-overhead.max": "64m",
            # As docs/engines.md advises.
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 10,
            "restart-strategy.fixed-delay.delay": "3 s",
            "heartbeat.interval": 1000,
            "heartbeat.timeout": 15000,
        }
        (self._folder / "tmp").mkdir(exist_ok=True)
        lines = (f"{name}: {value}\n" for name, value in settings.items())
        (self._conf / "config.yaml").write_text("".join(lines))
        # Beam's job server is of an older Flink, which knows the older name alone.
        shutil.copy(self._conf / "config.yaml", self._conf / "flink-conf.yaml")
        (self._conf / "log4j.properties").write_text(
            "rootLogger.level = INFO\nrootLogger.appenderRef.out.ref = out\n"
            "appender.out.name = out\nappender.out.type = CONSOLE\n"
            "appender.out.layout.type = PatternLayout\n"
            "appender.out.layout.pattern = %d{HH:mm:ss,SSS} %-5p %c{1} %m%n\n"
        )

    def _java(
        self,
        name: str,
        heap_mib: int,
        jars: list[str],
        main: str,
        *arguments: str,
        jvm: list[str] | None = None,
    ) -> None:
        options = [f"-Xmx{heap_mib}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_MODULES]
        options.append(f"-Dlog4j.configurationFile={self._conf / 'log4j.properties'}")
        command = ["java", *options, *(jvm or []), "-cp", ":".join(jars), main, *arguments]
        self.processes.start(name, command)


def _flink_jars() -> list[str]:
    return sorted(str(jar) for jar in fetched("flink").glob("*.jar"))


@contextlib.contextmanager
def flink_cluster(
    folder: Path, machines: Sequence[Machine] = _HERE, environment: Mapping[str, str] | None = None
) -> Iterator[FlinkCluster]:
    """A cluster that has been started; it is stopped at the end.

    Args:
        folder: For its configuration, its files and, in "logs", its logs.
        machines: Machines of the JobManager and the job server, which the caller must be on, and
            of each TaskManager with its worker pool.
        environment: Further variables of the workers.
    """
    fetched("flink"), fetched("beam-flink")
    with processes(folder / "logs") as group:
        cluster = FlinkCluster(group, folder, machines, environment or {})
        cluster.start()
        yield cluster
