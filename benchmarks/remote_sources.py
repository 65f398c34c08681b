"""Preprocessing from and into a bucket: `python -m benchmarks.remote_sources [--repeat 3]`.

The same images of about 100 kB are preprocessed in turns from a directory into a directory, and
from and into a real S3 server (versitygw) through a proxy that adds 30 ms to each request. Server,
proxy and job share the machine, so only ratios within a turn mean something. The server is fetched
by `make engines`. Results go to benchmarks/results/remote_sources.json.
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.corpus import make_large_photographs
from benchmarks.measure import Run, machine, run, take_turns
from shard_format import storage
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
            places = {
                "directory to directory": (str(corpus), str(folder)),
                "s3, 30 ms, to directory": (f"{server.bucket}/photos", str(folder)),
                "s3 to s3, both 30 ms": (f"{server.bucket}/photos", server.bucket),
            }
            requests: dict[str, Counter[str]] = {}
            subjects = {
                name: functools.partial(_preprocess, name, source, out, numbers, slow, requests)
                for name, (source, out) in places.items()
            }
            results["images"] = take_turns("images", subjects, arguments.repeat, alternating=True)
            results["requests"] = {name: dict(found) for name, found in requests.items()}
    print(json.dumps(results["requests"]))
    out = _HERE / "results" / "remote_sources.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {out}")


def _preprocess(
    name: str,
    source: str,
    out: str,
    numbers: Iterator[int],
    slow: Proxy,
    requests: dict[str, Counter[str]],
) -> Run:
    """One build without duplicates, into a place of its own."""
    slow.reset()
    place = f"{out}/set-{next(numbers)}"
    found = run("shardmill_preprocess", source, place, "off")
    requests[name] = slow.counts().kinds
    storage.delete_tree(storage.place_of(place))
    return found


if __name__ == "__main__":
    main()
