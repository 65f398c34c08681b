"""S3 by moto, which keeps objects in memory: right about conditions, slow, and takes any key."""

from __future__ import annotations

import contextlib
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.engines.processes import free_port, processes
from tests.servers.fetch import fetched
from tests.servers.server import Server, answers
from tests.servers.versitygw import environment


@contextlib.contextmanager
def moto(folder: Path, bucket: str = "shards") -> Iterator[Server]:
    """A server whose log is in a folder."""
    site = fetched("moto")
    port = free_port()
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with processes(folder / "logs") as started:
        started.start("moto", command, {"PYTHONPATH": str(site)})
        started.wait_for("moto", lambda: answers(f"http://{address}/moto-api/"))
        create = urllib.request.Request(f"http://{address}/{bucket}", method="PUT")
        urllib.request.urlopen(create, timeout=30).close()
        keys = environment(address, "moto-key", "moto-secret")
        yield Server(address, f"s3://{bucket}", keys, started.pid("moto"))
