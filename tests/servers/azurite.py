"""Azure Blob Storage by Azurite, Microsoft's own emulator."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.engines.processes import free_port, processes
from tests.servers.fetch import fetched
from tests.servers.server import Server, answers

# Not secret: every emulator of Azure has this account.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def azurite(folder: Path, container: str = "shards") -> Iterator[Server]:
    """A server whose objects are in a folder."""
    program = fetched("azurite") / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    port = free_port()
    address = f"127.0.0.1:{port}"
    command = ["node", str(program), "--blobHost=127.0.0.1", f"--blobPort={port}"]
    # Telemetry and newer clients' API versions are refused or tried in vain otherwise.
    command += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
    command += [f"--location={folder / 'buckets'}"]
    with processes(folder / "logs") as started:
        started.start("azurite", command)
        started.wait_for("azurite", lambda: answers(f"http://{address}/{ACCOUNT}"))
        _make_container(address, container)
        variables = {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": f"http://{address}/{ACCOUNT}",
        }
        bucket = f"abfs://{container}@{ACCOUNT}.dfs.core.windows.net"
        yield Server(address, bucket, variables, started.pid("azurite"))


def _make_container(address: str, container: str) -> None:
    """Creates a container by a request signed with the account's key, which Azurite demands."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    # A path names the account once, the emulator's addresses name it again.
    resource = f"/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
    message = "PUT\n" + "\n" * 11 + signed + resource
    digest = hmac.digest(base64.b64decode(KEY), message.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"http://{address}/{ACCOUNT}/{container}?restype=container"
    create = urllib.request.Request(url, headers=headers, method="PUT")
    urllib.request.urlopen(create, timeout=30).close()
