"""Google Cloud Storage by fake-gcs-server, which is right about conditions."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.engines.processes import free_port, processes
from tests.servers.fetch import fetched
from tests.servers.server import Server, answers


@contextlib.contextmanager
def fake_gcs(
    folder: Path,
    bucket: str = "shards-bucket",
    *,
    public_host: str | None = "127.0.0.1",
    host: str = "127.0.0.1",
) -> Iterator[Server]:
    """A server whose objects are files in a folder.

    Args:
        folder: Also of the log.
        bucket: To be created.
        public_host: Where the XML API is found, on any port, so that it is found behind a proxy
            too; None for the server's own default, with which there is a JSON API only.
        host: Address to listen on.
    """
    program = fetched("fake-gcs-server") / "fake-gcs-server"
    port = free_port(host)
    address = f"{host}:{port}"
    command = [str(program), "-scheme=http", f"-host={host}", f"-port={port}"]
    command += [f"-filesystem-root={folder / 'buckets'}", "-log-level=warn"]
    if public_host:
        command.append(f"-public-host={public_host}")
    with processes(folder / "logs") as started:
        started.start("fake-gcs-server", command)
        started.wait_for(
            "fake-gcs-server", lambda: answers(f"http://{address}/_internal/healthcheck")
        )
        make_bucket(address, bucket)
        variables = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        yield Server(address, f"gs://{bucket}", variables, started.pid("fake-gcs-server"))


def make_bucket(address: str, bucket: str) -> None:
    """Creates a bucket by the JSON API."""
    create = urllib.request.Request(
        f"http://{address}/storage/v1/b?project=tests",
        json.dumps({"name": bucket}).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(create, timeout=30).close()
