"""`shardmill train --local-workers N --parameter-servers M`: all roles as local processes.

Every process runs this very command, with TF_CONFIG for it. The chief has the terminal; the others
write to RUN/workers. A worker that is lost is started again while the others train; where the chief
or a parameter server is lost, all begin again at the last checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from types import FrameType

import click

from cli.local_workers import (
    GRACE_SECONDS,
    LOOK_SECONDS,
    divided_gpus,
    free_ports,
    is_worker,
    last_line,
    note_object_of,
    signal_name,
    start_process,
)
from foundation.errors import UsageError
from trainer.checkpointing.run_dir import WORKERS, require_free
from trainer.errors import WORKERS_LOST
from trainer.options import TrainOptions
from trainer.workers.cluster import VARIABLE

__all__ = ["is_worker", "train_locally"]

_WRONG = (2, 3, 4)  # exit codes of mistakes, which a restart does not mend
_CHIEF = ("chief", 0)


def train_locally(options: TrainOptions) -> int:
    """Runs this command in all processes, and returns the exit code of the run.

    Raises:
        UsageError: There are GPUs, but fewer than workers, or the options contradict each other.
        InputError: The run directory holds something else, or cannot be written.
    """
    workers, servers = options.local_workers, options.parameter_servers or 1
    if workers is None:
        raise UsageError(
            f"--parameter-servers {servers} needs workers. Pass --local-workers 2, or leave it out "
            "and set TF_CONFIG for --strategy parameter_server."
        )
    if options.strategy not in ("default", "parameter_server"):
        raise UsageError(
            f"--strategy {options.strategy} does not work with --parameter-servers {servers}, "
            "which start --strategy parameter_server. Leave one of them out."
        )
    if VARIABLE in os.environ:
        raise UsageError(
            f"{VARIABLE} is set, and --parameter-servers would set another one for each process. "
            "Unset it, or leave --local-workers and --parameter-servers out."
        )
    devices = divided_gpus(workers)
    require_free(options.run_dir)
    launcher = _Launcher(options, workers, servers, devices)
    while True:
        code = launcher.run()
        if code != WORKERS_LOST or not launcher.restarts_left:
            return code
        launcher.restarts_left -= 1
        click.echo(f"all processes start again ({launcher.restarts_left} restarts left)", err=True)


class _Launcher:
    """The processes of a run.

    Args:
        options: Of the run.
        workers: How many.
        servers: How many parameter servers.
        devices: The GPUs of each worker; None where there is none.

    Attributes:
        restarts_left: How often a process may be started again.
    """

    def __init__(
        self, options: TrainOptions, workers: int, servers: int, devices: list[str] | None
    ) -> None:
        self.restarts_left = options.restarts
        self._directory = options.run_dir / WORKERS
        self._counts = {"chief": 1, "worker": workers, "ps": servers}
        self._devices = devices
        self._processes: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        self._cluster: dict[str, list[str]] = {}

    def run(self) -> int:
        """The exit code of one attempt, when all processes have ended."""
        ports = iter(free_ports(sum(self._counts.values())))
        self._cluster = {
            job: [f"127.0.0.1:{next(ports)}" for _ in range(count)]
            for job, count in self._counts.items()
        }
        with self._signals_passed_on():
            try:
                for job, addresses in self._cluster.items():
                    for number in range(len(addresses)):
                        self._start(job, number)
                code = self._wait()
            finally:
                self._end_all()
                if _CHIEF in self._processes:
                    note_object_of(self._processes[_CHIEF].returncode)
                self._processes = {}
        return code

    def _start(self, job: str, number: int) -> None:
        config: dict[str, object] = {
            "cluster": self._cluster,
            "task": {"type": job, "index": number},
        }
        devices = None if self._devices is None else "-1"
        if self._devices is not None and job == "worker":
            devices = self._devices[number].partition(",")[0]
        log = None if job == "chief" else self._directory / f"{job}-{number}.log"
        self._processes[job, number] = start_process(f"{job}-{number}", config, devices, log)

    @contextlib.contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C go to the chief, which writes a checkpoint and ends."""

        def pass_on(number: int, frame: FrameType | None) -> None:
            chief = self._processes.get(_CHIEF)
            if chief is not None and chief.poll() is None:
                chief.send_signal(number)

        before = {
            number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait(self) -> int:
        """The exit code of the chief, or that of a process without which it cannot continue."""
        reported: set[subprocess.Popen[bytes]] = set()
        while True:
            code = self._processes[_CHIEF].poll()
            if code is not None:
                if code < 0:
                    click.echo(f"the chief ended by {signal_name(code)}", err=True)
                return WORKERS_LOST if code < 0 else code
            for (job, number), process in list(self._processes.items()):
                code = process.poll()
                if not code or process in reported:
                    continue
                reported.add(process)
                self._report(job, number, code)
                if code in _WRONG:
                    return code
                if job == "worker" and self.restarts_left:
                    self.restarts_left -= 1
                    click.echo(
                        f"worker {number} starts again ({self.restarts_left} restarts left)",
                        err=True,
                    )
                    self._start(job, number)
            workers = [self._processes["worker", i] for i in range(self._counts["worker"])]
            if all(worker.poll() for worker in workers):
                return WORKERS_LOST
            time.sleep(LOOK_SECONDS)

    def _report(self, job: str, number: int, code: int) -> None:
        name = f"parameter server {number}" if job == "ps" else f"worker {number}"
        if code < 0:
            click.echo(f"{name} ended by {signal_name(code)}", err=True)
            return
        log = self._directory / f"{job}-{number}.log"
        click.echo(
            f"{name} ended with exit code {code}; {log} ends with: {last_line(log)}", err=True
        )

    def _end_all(self) -> None:
        """Ends what has not ended by itself: the chief has asked all that it could reach to end."""
        chief = self._processes.get(_CHIEF)
        if chief is not None and chief.poll() == 0:
            self._await_all()
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        self._await_all()
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def _await_all(self) -> None:
        end = time.monotonic() + GRACE_SECONDS
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
