"""The command `shardmill serve`: its processes, ports and signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from reader.service.address import parse_address

pytestmark = [pytest.mark.usefixtures("small_windows"), pytest.mark.timeout(600)]

WAIT_SECONDS = 240  # far more than a process needs to end, even on a machine that is busy


@pytest.mark.proof
def test_workers_die_with_their_parent(serve: Callable[..., Any], tiny: Path) -> None:
    served = serve(tiny, "--workers", "2")
    workers = served.workers()
    assert len(workers) == 2
    os.kill(served.process.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, WAIT_SECONDS)
    assert not alive


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_cleanly(number: int, serve: Callable[..., Any], tiny: Path) -> None:
    served = serve(tiny)
    workers = served.workers()
    served.process.send_signal(number)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert not any(worker.is_running() for worker in workers)
    assert served.process.stdout is not None
    assert served.process.stdout.read().endswith("stopped\n")
    assert any("are open on every network interface" in line for line in served.printed)


@pytest.mark.proof
def test_workers_of_another_machine_join(
    serve: Callable[..., Any], shardmill: Any, repository: Path, tiny: Path
) -> None:
    served = serve(tiny)
    port = parse_address(served.address, "a test").port + 5
    command = [sys.executable, "-m", "cli.main", "serve", str(tiny), "--join", served.address]
    joined = subprocess.Popen(
        [*command, "--workers", "1", "--port", str(port)], cwd=repository, stdout=subprocess.PIPE
    )
    try:
        assert served.process.stdout is not None
        assert any(line == "3 workers\n" for line in served.process.stdout)
        (own,) = [child for child in psutil.Process(joined.pid).children()][-1:]
        joined.terminate()
        assert joined.wait(WAIT_SECONDS) == 0
        assert not own.is_running()
    finally:
        joined.kill()
        joined.wait()


def test_a_taken_port_is_reported(
    shardmill: Any, free_ports: Callable[[int], int], tiny: Path
) -> None:
    first = free_ports(3)
    for taken in (first, first + 2):
        with socket.socket() as other:
            other.bind(("", taken))
            other.listen()
            done = shardmill("serve", tiny, "--port", first, "--workers", 2)
        assert done.returncode == 2
        assert f"port {taken} in shardmill serve" in done.stderr
        assert "Traceback" not in done.stderr


def test_what_is_wrong_with_serve_is_reported(
    shardmill: Any, free_ports: Callable[[int], int], tiny: Path, tmp_path: Path
) -> None:
    for arguments, code, text in [
        ((tmp_path,), 3, "manifest"),
        ((tiny, "--workers", -1), 2, "workers"),
        ((tiny, "--port", 65535), 2, "Port 65535 and the 2 next"),
        ((tiny, "--join", "there:5050"), 2, "grpc://host:5050"),
        ((tiny, "--join", f"grpc://localhost:{free_ports(1)}"), 2, "No service answers"),
    ]:
        done = shardmill("serve", *arguments)
        assert done.returncode == code and text in done.stderr, done.stderr


def test_a_journal_that_is_no_folder_is_refused(
    shardmill: Any, free_ports: Callable[[int], int], tiny: Path
) -> None:
    done = shardmill("serve", tiny, "--port", free_ports(1), "--journal", os.devnull)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("error: The service cannot start on port")
    assert "/dev/null is not a directory" in done.stderr
