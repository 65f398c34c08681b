"""Listing a bucket: `python -m benchmarks.remote_listing [--objects 1000000]`.

Empty objects in 100 folders of a real S3 server (versitygw), through a proxy that adds 30 ms to
each request: listed as preprocessing does it, by several prefixes at a time, and by one prefix,
page after page. Server and proxy share the machine. The server is fetched by `make engines`.
Results go to benchmarks/results/remote_listing.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beam_jobs.corpus.discovery import find_files
from benchmarks.measure import machine
from foundation import storage
from tests.servers.proxy import Proxy, proxy
from tests.servers.versitygw import versitygw

_HERE = Path(__file__).parent
_LATENCY = 0.03  # seconds a request
_FOLDERS = 100


def main() -> None:
    """Makes the objects, lists them in both ways, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote_listing")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine() | {"load": round(os.getloadavg()[0], 1)},
        "objects": arguments.objects,
        "folders": _FOLDERS,
        "latency_ms": 1000 * _LATENCY,
    }
    with tempfile.TemporaryDirectory(dir=arguments.work) as scratch:
        folder = Path(scratch)
        with versitygw(folder) as server, proxy(server, folder / "p", latency=_LATENCY) as slow:
            _make(folder / "buckets" / "shards" / "photos", arguments.objects)
            os.environ.update(slow.server.environment)
            place = storage.place_of(f"{server.bucket}/photos")
            ways: dict[str, Callable[[], int]] = {
                "by several prefixes": lambda: sum(1 for _ in find_files([place], print)),
                "by one prefix": lambda: sum(1 for _ in storage.list_tree(place)),
            }
            for name, count in ways.items():
                results[name] = _timed(count, slow, arguments.objects)
                print(name, results[name], flush=True)
    out = _HERE / "results" / "remote_listing.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {out}")


def _make(root: Path, objects: int) -> None:
    for number in range(_FOLDERS):
        folder = root / f"class-{number:02d}"
        folder.mkdir(parents=True)
        for one in range(number, objects, _FOLDERS):
            (folder / f"{one:07d}.jpg").touch()


def _timed(count: Callable[[], int], slow: Proxy, objects: int) -> dict[str, Any]:
    slow.reset()
    begun = time.perf_counter()
    found = count()
    seconds = time.perf_counter() - begun
    if found != objects:
        raise SystemExit(f"Found {found:,} of {objects:,} objects")
    return {
        "seconds": round(seconds, 1),
        "objects_per_second": round(objects / seconds),
        "requests": sum(slow.counts().kinds.values()),
        "most_in_flight": slow.counts().most_in_flight,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


if __name__ == "__main__":
    main()
