"""Google Cloud Storage by gcp-storage-emulator, which ignores conditions: every `create` wins."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.engines.processes import free_port, processes
from tests.servers.fake_gcs import make_bucket
from tests.servers.fetch import fetched
from tests.servers.server import Server, answers


@contextlib.contextmanager
def gcp_storage_emulator(folder: Path, bucket: str = "shards-bucket") -> Iterator[Server]:
    """A server whose objects are in memory and whose log is in a folder."""
    site = fetched("gcp-storage-emulator")
    port = free_port()
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--in-memory"]
    command += ["--host=127.0.0.1", f"--port={port}"]
    with processes(folder / "logs") as started:
        started.start("gcp-storage-emulator", command, {"PYTHONPATH": str(site)})
        started.wait_for("gcp-storage-emulator", lambda: answers(f"http://{address}/"))
        make_bucket(address, bucket)
        variables = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        yield Server(address, f"gs://{bucket}", variables, started.pid("gcp-storage-emulator"))
