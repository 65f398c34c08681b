"""Clients of object storage side by side: `python -m benchmarks.storage_clients [--repeat 3]`.

Each client does the same tasks on a real server (versitygw for S3, fake-gcs-server for Google
Cloud Storage) through a proxy that adds latency to each request. Server, proxy and client share
the machine, so only ratios within a run mean something. Servers are fetched by `make engines`;
s3fs and gcsfs take part where they are installed. Results go to
benchmarks/results/storage_clients.json.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import statistics
import tempfile
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

from benchmarks.measure import Run, machine, run
from benchmarks.subjects.storage_client import (
    LARGE_BYTES,
    LISTED,
    SMALL_BYTES,
    SMALL_COUNT,
    TASKS,
)
from tests.servers.fake_gcs import fake_gcs
from tests.servers.proxy import Proxy, proxy
from tests.servers.server import Server
from tests.servers.versitygw import versitygw

_HERE = Path(__file__).parent
# What a task counts, and what it is divided by for "CPU per GB".
_UNITS = {"small": "GETs", "ranges": "MiB", "write": "MiB", "list": "objects", "races": "winners"}
_LATENCIES = (0.0, 0.03)  # seconds a request
# obstore cannot write to fake-gcs-server, which has no XML interface for it.
_CLIENTS = {
    "s3": ("obstore", "pyarrow", "fsspec"),
    "gs": ("obstore", "google-cloud-storage", "pyarrow", "fsspec"),
}
_CANNOT = {("gs", "obstore", "write"), ("gs", "obstore", "races")}
_FSSPEC = {"s3": "s3fs", "gs": "gcsfs"}


def main() -> None:
    """Fills both servers, runs everything, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage_clients")
    parser.add_argument("--repeat", type=int, default=3, help="runs; the median counts")
    parser.add_argument("--only", choices=list(TASKS), action="append")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    heads = ("client", 25), ("task", 8), ("ms", 4), ("a second", 10), ("CPU s", 7), ("MiB", 6)
    print("".join(f"{head:<{width}}" for head, width in heads))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = {
            "s3": stack.enter_context(versitygw(folder / "s3")),
            "gs": stack.enter_context(fake_gcs(folder / "gs")),
            "s3 to write": stack.enter_context(versitygw(folder / "s3w", keep_alive=False)),
        }
        for name in ("s3", "gs"):
            _fill(servers[name], name, folder / name)
        running = {
            name: stack.enter_context(proxy(server, folder / f"proxy of {name}"))
            for name, server in servers.items()
        }
        for scheme in ("s3", "gs"):
            for task in arguments.only or TASKS:
                # pyarrow and s3fs sign bodies in chunks.
                name = "s3 to write" if scheme == "s3" and task in ("write", "races") else scheme
                rows += _compared(scheme, task, running[name], arguments.repeat)
                _write_results(rows, arguments.repeat)


def _write_results(rows: list[dict[str, object]], repeat: int) -> None:
    results = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.storage_clients --repeat {repeat}",
        "machine": machine(),
        "runs": rows,
    }
    file = _HERE / "results" / "storage_clients.json"
    file.write_text(json.dumps(results, indent=1) + "\n")


def _compared(scheme: str, task: str, running: Proxy, repeat: int) -> list[dict[str, object]]:
    """A row for each client and latency; clients take turns."""
    clients = [
        client
        for client in _CLIENTS[scheme]
        if (scheme, client, task) not in _CANNOT
        and (client != "fsspec" or importlib.util.find_spec(_FSSPEC[scheme]))
    ]
    rows = []
    for latency in _LATENCIES:
        runs: dict[str, list[Run]] = {client: [] for client in clients}
        requests = {}
        running.set(latency=latency)
        for _ in range(repeat):
            for client in clients:
                running.reset()
                with mock.patch.dict(os.environ, _variables(running.server)):
                    runs[client].append(run("storage_client", client, task, running.server.bucket))
                requests[client] = sum(running.counts().kinds.values())
        for client, own in runs.items():
            name = _FSSPEC[scheme] if client == "fsspec" else client
            rows.append(_row(scheme, name, task, latency, own, requests[client]))
    return rows


def _row(
    scheme: str, client: str, task: str, latency: float, runs: list[Run], requests: int
) -> dict[str, object]:
    rate = statistics.median(one.rate for one in runs)
    cpu = statistics.median(one.cpu_seconds or 0 for one in runs)
    peak = statistics.median(one.peak_mib for one in runs)
    row: dict[str, object] = {
        "scheme": scheme,
        "client": client,
        "task": task,
        "latency_ms": round(latency * 1000),
        "unit": _UNITS[task],
        "count": runs[-1].records,
        "per_second": round(rate, 1),
        "cpu_seconds": round(cpu, 3),
        "peak_mib": round(peak, 1),
        "requests": requests,
    }
    size = {"small": SMALL_COUNT * SMALL_BYTES, "ranges": runs[-1].records << 20}
    size["write"] = LARGE_BYTES
    if task in size:
        row["cpu_seconds_per_gb"] = round(cpu / (size[task] / 1e9), 2)
    shown = f"{scheme} {client}", task, round(latency * 1000), f"{rate:,.0f}", f"{cpu:.2f}"
    widths = (25, 8, 4, 10, 7)
    print("".join(f"{cell:<{width}}" for cell, width in zip(shown, widths, strict=True)), end="")
    print(f"{peak:<6.0f} {runs[-1].records} {_UNITS[task]}, {requests} requests", flush=True)
    return row


def _variables(server: Server) -> Mapping[str, str]:
    """Of a user; pyarrow and s3fs also find Amazon's metadata server, which is not there."""
    return {**server.environment, "AWS_EC2_METADATA_DISABLED": "true"} | {
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"
    }


def _fill(server: Server, scheme: str, folder: Path) -> None:
    """The objects that are read and listed."""
    objects = {f"small/{n:05d}": SMALL_BYTES for n in range(SMALL_COUNT)}
    objects |= {f"listed/{n:05d}": 1 for n in range(LISTED)} | {"large": LARGE_BYTES}
    if scheme == "s3":  # objects are files there
        bucket = folder / "buckets" / server.bucket.partition("://")[2]
        for key, size in objects.items():
            path = bucket / key
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(os.urandom(size))
        return
    bucket_name = server.bucket.partition("://")[2]
    upload = f"http://{server.address}/upload/storage/v1/b/{bucket_name}/o?uploadType=media&name="

    def put(key: str) -> None:
        request = urllib.request.Request(f"{upload}{key}", os.urandom(objects[key]))
        request.add_header("Content-Type", "application/octet-stream")
        urllib.request.urlopen(request, timeout=120).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, objects))


if __name__ == "__main__":
    main()
