"""`shardmill serve` in processes of its own, and what comes from it.

Nothing depends on how fast they are.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import tensorflow as tf

from reader.service.address import Address

WAIT_SECONDS = 240  # far more than a process needs to start, even on a machine that is busy


class Served:
    """`shardmill serve` in a process of its own.

    Attributes:
        address: Address of the dispatcher.
        process: The command.
        printed: Its lines until both workers were ready.
    """

    def __init__(
        self, repository: Path, directory: Path, *options: str, port: int | None = None
    ) -> None:
        port = port or _free_ports(3)
        self.address = str(Address("localhost", port))
        command = [sys.executable, "-m", "cli.main", "serve", str(directory), *options]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=repository, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.printed: list[str] = []
        for line in self.process.stdout:
            self.printed.append(line)
            if line == "2 workers\n":
                break
        assert self.process.poll() is None

    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "run_worker" in " ".join(child.cmdline())]

    def kill(self) -> None:
        """Everything at once, as when a machine goes."""
        processes = [*self.workers(), psutil.Process(self.process.pid)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, WAIT_SECONDS)


def _free_ports(count: int) -> int:
    """The first of so many that nobody listens on, below those that systems give to clients."""
    for first in range(15000 + os.getpid() % 1000 * 10, 32000, 10):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("", port))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture
def free_ports() -> Callable[[int], int]:
    return _free_ports


@pytest.fixture
def serve(repository: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(directory: Path, *options: str, port: int | None = None) -> Served:
        started.append(Served(repository, directory, *options, port=port))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()
        served.process.wait(WAIT_SECONDS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, repository: Path, tiny: Path) -> Iterator[str]:
    """The address of a service for tests that leave it alive; SIGTERM ends it cleanly."""
    served = Served(repository, tiny)
    workers = served.workers()
    yield served.address
    served.process.terminate()
    try:
        assert served.process.wait(WAIT_SECONDS) == 0
        assert not any(worker.is_running() for worker in workers)
    finally:
        for process in workers:
            if process.is_running():
                process.kill()


@pytest.fixture
def by_epoch() -> Callable[..., list[Counter[bytes]]]:
    """Of batches: their bytes, equal if and only if all values are, counted by epoch."""

    def read(
        found: Iterable[Any], steps: int, on_batch: Callable[[int], None] = lambda number: None
    ) -> list[Counter[bytes]]:
        batches = []
        for number, batch in enumerate(found):
            batches.append(_bytes(batch))
            on_batch(number)
        return [Counter(batches[start : start + steps]) for start in range(0, len(batches), steps)]

    return read


def _bytes(batch: Any) -> bytes:
    return b"|".join(
        tf.io.serialize_tensor(part).numpy()
        for part in tf.nest.flatten(batch, expand_composites=True)
    )
