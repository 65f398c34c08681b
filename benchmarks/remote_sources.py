"""Preprocessing from and into a bucket: `python -m benchmarks.remote_sources [--repeat 3]`.

The same images of about 100 kB are preprocessed in turns from a directory into a directory, and
from and into a real S3 server (versitygw) through a proxy that adds 30 ms to each request, or
nothing. Server, proxy and job share the machine, so only ratios within a turn mean something, and
what server and proxy take from the job's cores is said. The server is fetched by `make engines`.
Results go to benchmarks/results/remote_sources.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks.corpus import make_large_photographs
from benchmarks.measure import Run, machine, run, take_turns
from foundation import storage
from tests.servers.proxy import Proxy, proxy
from tests.servers.versitygw import versitygw

_HERE = Path(__file__).parent
_LATENCY = 0.03  # seconds a request


def main() -> None:
    """Makes the corpus, runs everything in turns, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote_sources")
    parser.add_argument("--images", type=int, default=4_000)
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    corpus = make_large_photographs(arguments.work / "large-photographs", arguments.images)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.remote_sources {' '.join(sys.argv[1:])}".strip(),
        "machine": machine() | {"load": round(os.getloadavg()[0], 1)},
        "latency_ms": 1000 * _LATENCY,
    }
    with tempfile.TemporaryDirectory(dir=arguments.work) as scratch:
        folder = Path(scratch)
        with versitygw(folder) as server, proxy(server, folder / "p", latency=_LATENCY) as slow:
            (folder / "buckets" / "shards" / "photos").symlink_to(corpus)
            os.environ.update(slow.server.environment)
            numbers = itertools.count()
            photos = f"{server.bucket}/photos"
            places = {
                "directory to directory": (str(corpus), str(folder), 0.0),
                "s3, 0 ms, to directory": (photos, str(folder), 0.0),
                "s3, 30 ms, to directory": (photos, str(folder), _LATENCY),
                "s3 to s3, both 30 ms": (photos, server.bucket, _LATENCY),
            }
            traffic: dict[str, Any] = {}
            subjects = {
                name: functools.partial(_preprocess, name, place, numbers, slow, traffic)
                for name, place in places.items()
            }
            results["images"] = take_turns("images", subjects, arguments.repeat, alternating=True)
            results["traffic"] = traffic
    for name, found in traffic.items():
        print(name, found)
    out = _HERE / "results" / "remote_sources.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {out}")


def _preprocess(
    name: str,
    place: tuple[str, str, float],
    numbers: Iterator[int],
    slow: Proxy,
    traffic: dict[str, Any],
) -> Run:
    """One build without duplicates, from a source into a place of its own."""
    source, folder, latency = place
    out = f"{folder}/set-{next(numbers)}"
    slow.set(latency=latency)
    slow.reset()
    before = _cpu_seconds(slow)
    found = run("shardmill_preprocess", source, out, "off")
    build = json.loads(storage.read_bytes(storage.place_of(f"{out}/build.json")))
    traffic[name] = {
        "requests": dict(slow.counts().kinds),
        "cpu_seconds_of_server_and_proxy": round(_cpu_seconds(slow) - before, 2),
        "stages": {stage["name"]: stage["seconds"] for stage in build["stages"]},
    }
    storage.delete_tree(storage.place_of(out))
    return found


def _cpu_seconds(slow: Proxy) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in (slow.pid, slow.server.pid)]
    return sum(time.user + time.system for time in times)


if __name__ == "__main__":
    main()
