"""`shardmill train --local-workers N`: the workers of a run as processes of this machine.

Every process runs this very command, with TF_CONFIG for it. Worker 0 has the terminal; the others
write to RUN/workers. None of them can be replaced during the run: when one is lost, the
others end too, and with --restarts all begin again at the last checkpoint.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

import click

from cli.ending import object_was_printed
from foundation.errors import InputError, UsageError
from trainer.checkpointing.run_dir import WORKERS, require_free
from trainer.errors import WORKERS_LOST
from trainer.options import TrainOptions
from trainer.workers.cluster import VARIABLE

# Says to a process that it is one of these workers, so that it starts none itself.
CHILD = "SHARDMILL_LOCAL_WORKER"
LOOK_SECONDS = 0.2
# For a worker that hangs or writes, after the others have ended.
GRACE_SECONDS = 10.0
# The same after a signal: within 10 s of it the run has ended, unless a checkpoint takes longer.
_STOPPED_GRACE_SECONDS = 3.0
_TAIL_BYTES = 2000
# Below those that Linux gives to outgoing connections and to port 0: a worker listens seconds after
# its port was found free, and another process may have got it meanwhile.
_PORTS = range(20_000, 32_768)
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def is_worker() -> bool:
    """Whether this process was started here."""
    return CHILD in os.environ


def train_locally(options: TrainOptions, count: int) -> int:
    """Runs this command in `count` processes, and returns the exit code of the run.

    Raises:
        UsageError: There are GPUs, but fewer than workers, or another strategy was asked for.
        InputError: The run directory holds something else, or cannot be written.
    """
    if options.strategy not in ("default", "multi_worker"):
        raise UsageError(
            f"--strategy {options.strategy} does not work with --local-workers {count}, which "
            "start --strategy multi_worker. Leave one of them out."
        )
    if VARIABLE in os.environ:
        raise UsageError(
            f"{VARIABLE} is set, and --local-workers would set another one for each process. Unset "
            "it, or leave --local-workers out."
        )
    devices = divided_gpus(count)
    require_free(options.run_dir)
    for restarts_left in range(options.restarts, -1, -1):
        code = _Team(options, count, devices).run()
        if code != WORKERS_LOST or not restarts_left:
            return code
        click.echo(f"all {count} workers start again ({restarts_left - 1} restarts left)", err=True)
    return WORKERS_LOST


class _Team:
    """The processes of one attempt.

    Args:
        options: Of the run.
        count: How many.
        devices: CUDA_VISIBLE_DEVICES of each; None where there is no GPU.
    """

    def __init__(self, options: TrainOptions, count: int, devices: list[str] | None) -> None:
        self._options = options
        self._logs = [options.run_dir / WORKERS / f"worker-{index}.log" for index in range(count)]
        self._devices = devices
        self._processes: list[subprocess.Popen[bytes]] = []
        self._asked: int | None = None

    def run(self) -> int:
        """The exit code of the run, when all processes have ended."""
        addresses = [f"127.0.0.1:{port}" for port in free_ports(len(self._logs))]
        before = {
            number: signal.signal(number, self._pass_on)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            for index in range(len(addresses)):
                self._processes.append(self._start(index, addresses))
            self._wait()
        finally:
            for index, process in enumerate(self._processes):
                if process.poll() is None:
                    what = "has nothing to save" if self._asked else "hangs"
                    click.echo(f"worker {index} {what}; it is killed", err=True)
                    process.kill()
                    process.wait()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._result()

    def _start(self, index: int, addresses: list[str]) -> subprocess.Popen[bytes]:
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        devices = None if self._devices is None else self._devices[index]
        return start_process(str(index), config, devices, self._logs[index] if index else None)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Sends a signal to all workers, once: a second Ctrl-C would end them without saving."""
        self._asked = self._asked or number
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(number)

    def _wait(self) -> None:
        """Returns when all have ended, or one failed and the others had the time to say so."""
        end = float("inf")
        # The others notice by themselves, and say which one; they get the time for that.
        noticing = 2 * self._options.worker_timeout + GRACE_SECONDS
        while True:
            codes = [process.poll() for process in self._processes]
            running = codes.count(None)
            if not running:
                return
            if any(codes) and end == float("inf"):
                end = time.monotonic() + noticing
            if self._asked and running < len(codes):
                # All stop at one step, and the chief's checkpoint is whole by then. One that
                # cannot come to it, since another had not begun, has nothing to save.
                end = min(end, time.monotonic() + _STOPPED_GRACE_SECONDS)
            if codes.count(WORKERS_LOST) == len(codes) - running and any(codes):
                end = min(end, time.monotonic() + GRACE_SECONDS)  # the rest hangs
            if time.monotonic() >= end:
                return
            time.sleep(LOOK_SECONDS)

    def _result(self) -> int:
        """The exit code, after what the logs say of workers that failed."""
        codes = [process.returncode for process in self._processes]
        for index, code in enumerate(codes):
            if code not in (0, WORKERS_LOST, 130, 143):
                self._show(index, code)
        note_object_of(codes[0])
        known = [code for code in codes if code > 0 and code != WORKERS_LOST]
        if self._asked and not known and any(codes):
            return 128 + self._asked
        if any(code < 0 for code in codes) and not known:
            return WORKERS_LOST
        return known[0] if known else max(codes)

    def _show(self, index: int, code: int) -> None:
        if code < 0:
            click.echo(f"worker {index} ended by {signal_name(code)}", err=True)
        if code < 0 or index == 0:
            return
        log = self._logs[index]
        message = f"worker {index} ended with exit code {code}; {log} ends with: {last_line(log)}"
        click.echo(message, err=True)


def start_process(
    name: str, config: dict[str, object], devices: str | None, log: Path | None
) -> subprocess.Popen[bytes]:
    """This command in a process of its own.

    Args:
        name: By which it knows that it is one of several.
        config: Its TF_CONFIG.
        devices: Its CUDA_VISIBLE_DEVICES; None where there is no GPU.
        log: Where it writes; None for the terminal.

    Raises:
        InputError: The log cannot be written.
    """
    environment = {**os.environ, CHILD: name, VARIABLE: json.dumps(config)}
    if devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = devices
    command = [sys.executable, "-m", "cli.main", *sys.argv[1:]]
    # In sessions of their own, or a terminal would send them Ctrl-C too, besides the launcher.
    if log is None:
        return subprocess.Popen(
            command, env=environment, start_new_session=True, preexec_fn=end_with_parent
        )
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
    except OSError as error:
        raise InputError(f"Cannot write to {log}: {error}. Pass another --run-dir.") from error


def note_object_of(code: int) -> None:
    """Notes that the process with the terminal has printed its --json, by its return code."""
    if code >= 0 and code != WORKERS_LOST:
        object_was_printed()


def last_line(log: Path) -> str:
    """The last line of a log."""
    data = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
    lines = [line for line in data.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def signal_name(code: int) -> str:
    """The signal that a process with this return code ended by."""
    return signal.Signals(-code).name


def end_with_parent() -> None:
    """Has the kernel end a worker whose launcher was killed; Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, all different."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports


def divided_gpus(count: int) -> list[str] | None:
    """The GPUs of each worker, as CUDA_VISIBLE_DEVICES; None if there are none.

    Raises:
        UsageError: There are fewer than workers; NCCL does not let two share one.
    """
    available = gpus()
    if not available:
        return None
    if len(available) < count:
        raise UsageError(
            f"{count} local workers, and {len(available)} GPU: each needs one of its own. Pass "
            f"--local-workers {len(available)}, or set CUDA_VISIBLE_DEVICES=-1 to train on CPUs."
        )
    return [",".join(available[index::count]) for index in range(count)]


def gpus() -> list[str]:
    """What CUDA calls the GPUs of this machine that it may use."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name.strip() and not name.startswith("-")]
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    listed = subprocess.run([command, "-L"], capture_output=True, text=True, check=False).stdout
    return [str(index) for index, _ in enumerate(listed.splitlines())]
