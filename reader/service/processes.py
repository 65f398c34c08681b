"""The processes of `shardmill serve`: a dispatcher, and workers that are restarted if they die.

Every worker is a process of its own: an image that crashes a decoder takes down one of them. It
ends when its parent does, however that ends. Ports are fixed, one for the dispatcher and the next
for the workers: firewalls can be configured, and trainers find a restarted worker under the address
that they know, so that it continues their epoch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foundation.processes.children import ChildProcess, cause_of_end, wait_for_all
from foundation.processes.signals import handling
from reader.records.split_files import check_shards
from reader.service.address import PROTOCOL, Address, check_answers
from shard_format import InputError, ShardSetError, UsageError, load_manifest

MAX_PORT = 65535
# A worker that dies sooner than that after its start is restarted only when the time is over: a
# permanent failure must not keep a machine busy with restarts.
_RESTART_SECONDS = 10.0
_LOOK = 2.0  # seconds between two looks at the workers
_STOP_SECONDS = 5.0
# The dispatcher forgets a worker that it has not heard of for so long.
_WORKER_TIMEOUT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class ServeOptions:
    """What is served, and where.

    Attributes:
        directory: Directory of the shard set; trainers and all workers must see it under this path.
        host: Name or address under which trainers and other workers reach this machine.
        port: Port of the dispatcher; the workers of this machine have the next ones. With `join`
            only the next ones are used.
        workers: Number of worker processes; a dispatcher alone (0) is useful where others join it.
        join: Address of the dispatcher of another machine; None starts one here.
        journal: Directory where the dispatcher notes what it does, so that after a restart streams
            continue; None keeps no notes.
    """

    directory: Path
    host: str
    port: int
    workers: int
    join: Address | None = None
    journal: Path | None = None

    def __post_init__(self) -> None:
        if self.workers < (0 if self.join is None else 1):
            raise UsageError(
                f"{self.workers} workers are too few in shardmill serve. Pass --workers 1 or more."
            )
        if not 1 <= self.port <= MAX_PORT - self.workers:
            raise UsageError(
                f"Port {self.port} and the {self.workers} next are not all in [1, {MAX_PORT}] in "
                "shardmill serve. Pass another --port."
            )

    @property
    def dispatcher(self) -> Address:
        """Address that trainers connect to."""
        return self.join or Address(self.host, self.port)


def check_directory(directory: Path) -> None:
    """Checks that the files of a shard set are there, by names and sizes.

    Raises:
        ShardSetError: There is no set, or a file is missing.
        DamageError: A shard has another size.
    """
    manifest = load_manifest(directory)
    for name, split in manifest.splits.items():
        check_shards(directory, split)
        for index in (directory / file for file in manifest.index_files(name)):
            if not index.exists():
                raise ShardSetError(
                    f"No index file {index}. Copy the whole set, or build it again."
                )


def serve(options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Args:
        options: Options of the service.
        say: Function called with a line for each event, first the address once it answers.

    Raises:
        UsageError: A port is taken, or no dispatcher answers that is to be joined.
        ShardSetError: There is no shard set.
        DamageError: The set is not what its manifest says.
    """
    check_directory(options.directory)
    own = options.join is None
    for port in range(options.port + (not own), options.port + options.workers + 1):
        _check_free(port)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        stack.enter_context(handling(signal.default_int_handler, signal.SIGINT, signal.SIGTERM))
        if options.join is not None:
            check_answers(options.join, "shardmill serve")
            dispatcher = None
        else:
            dispatcher = _start_dispatcher(options)
            stack.callback(dispatcher._stop)
        workers = _ServiceWorkers(options)
        stack.callback(workers.stop)
        workers.start()
        say(f"serving {options.directory} at {options.dispatcher}")
        say(_exposed(options))
        _watch(workers, dispatcher, say)


def _exposed(options: ServeOptions) -> str:
    """Returns a warning on the ports, which TensorFlow opens on all network interfaces."""
    first = options.port + (options.join is not None)
    last = options.port + options.workers
    ports = f"port {first} is" if first == last else f"ports {first} to {last} are"
    return f"{ports} open on every network interface, without authentication: use a firewall"


def _watch(workers: _ServiceWorkers, dispatcher: Any, say: Callable[[str], None]) -> None:
    """Reports changes, and starts workers again that died, until a signal comes."""
    last = ""
    while True:
        for line in workers.look():
            say(line)
        known = workers.alive if dispatcher is None else dispatcher._num_workers()
        now = f"{known} worker{'' if known == 1 else 's'}"
        if now != last:
            say(now)
            last = now


class _ServiceWorkers:
    """The workers of this machine."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._processes: dict[int, ChildProcess] = {}  # by port

    @property
    def alive(self) -> int:
        return sum(process.poll() is None for process in self._processes.values())

    def start(self) -> None:
        for number in range(self._options.workers):
            self._start(self._options.port + 1 + number)

    def look(self) -> Iterator[str]:
        """Waits some seconds, and yields a line for each worker that was started again."""
        time.sleep(_LOOK)
        for port, process in list(self._processes.items()):
            code = process.poll()
            if code is None or time.monotonic() - process.started < _RESTART_SECONDS:
                continue
            yield f"the worker on port {port} ended ({cause_of_end(code)}); it is started again"
            self._start(port)

    def stop(self) -> None:
        for process in self._processes.values():
            process.stop()
        wait_for_all(self._processes.values())

    def _start(self, port: int) -> None:
        options = self._options
        # Modules are found where this process found them, and not in its working directory.
        command = [sys.executable, "-P", "-c", _WORKER, options.dispatcher.host_and_port]
        path = os.pathsep.join(filter(None, sys.path))
        self._processes[port] = ChildProcess(
            [*command, options.host, str(port)],
            log=None,
            environment={"PYTHONPATH": path},
            grace=_STOP_SECONDS,
        )


_WORKER = f"import sys; from {__name__} import run_worker; run_worker(*sys.argv[1:])"


def run_worker(dispatcher: str, host: str, port: str) -> None:
    """Runs a worker in its own process, until a signal ends it."""
    import tensorflow as tf

    own = Address(host, int(port))
    config = tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher,
        worker_address=own.host_and_port,
        port=own.port,
        protocol=PROTOCOL,
    )
    tf.data.experimental.service.WorkerServer(config).join()


def _start_dispatcher(options: ServeOptions) -> Any:
    import tensorflow as tf

    try:
        return _dispatcher(options, tf)
    except (RuntimeError, tf.errors.OpError) as error:  # RuntimeError is what its server raises
        journal = "" if options.journal is None else f" with --journal {options.journal}"
        raise InputError(
            f"The service cannot start on port {options.port}{journal}: {error}. Pass another "
            f"{'--port' if options.journal is None else 'folder, which can be written to'}."
        ) from error


def _dispatcher(options: ServeOptions, tf: Any) -> Any:
    return tf.data.experimental.service.DispatchServer(
        tf.data.experimental.service.DispatcherConfig(
            port=options.port,
            protocol=PROTOCOL,
            work_dir=None if options.journal is None else str(options.journal),
            fault_tolerant_mode=options.journal is not None,
            worker_timeout_ms=_WORKER_TIMEOUT_SECONDS * 1000,
        )
    )


def _check_free(port: int) -> None:
    """Checks that nobody listens on a port, which TensorFlow would share with another service."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            raise UsageError(
                f"Cannot listen on port {port} in shardmill serve: '{error.strerror}'. Stop what "
                "listens there, or pass another --port."
            ) from error
