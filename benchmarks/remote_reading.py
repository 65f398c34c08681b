"""Reading from a bucket and from a disk: `python -m benchmarks.remote_reading [--repeat 3]`.

The same sets, images of about 100 kB and token ids, are read in turns from a directory and, without
a cache, from a real S3 server (versitygw) through a proxy that adds 30 ms to each request. Server,
proxy and reader share the machine, so only ratios within a turn mean something, and CPU time a
record tells more than the rate. The server is fetched by `make engines`. Results go to
benchmarks/results/remote_reading.json.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from beam_jobs.options import ImageOptions, TextOptions
from beam_jobs.run import preprocess
from benchmarks.corpus import make_large_photographs
from benchmarks.measure import machine, run, take_turns
from benchmarks.text_corpus import make_jsonl
from foundation import storage
from foundation.storage.object_stores import forget_connections
from tests.servers.proxy import proxy
from tests.servers.server import Server
from tests.servers.versitygw import versitygw

_HERE = Path(__file__).parent
_LATENCY = 0.03  # seconds a request


def main() -> None:
    """Makes the sets, runs everything in turns, prints tables, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.remote_reading")
    parser.add_argument("--seconds", type=float, default=12, help="on the clock of each run")
    parser.add_argument("--repeat", type=int, default=3, help="turns; the median counts")
    parser.add_argument("--images", type=int, default=6_000)
    parser.add_argument("--documents", type=int, default=30_000)
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    sets = {
        "images": _images(arguments.work, arguments.images),
        "tokens": _tokens(arguments.work, arguments.documents),
    }
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.remote_reading {' '.join(sys.argv[1:])}".strip(),
        "machine": machine() | {"load": round(os.getloadavg()[0], 1)},
        "latency_ms": 1000 * _LATENCY,
    }
    with tempfile.TemporaryDirectory(dir=arguments.work) as scratch:
        folder = Path(scratch)
        with versitygw(folder) as server, proxy(server, folder / "p", latency=_LATENCY) as slow:
            for kind, directory in sets.items():
                url = _upload(directory, server, kind)
                os.environ.update(slow.server.environment)
                read = functools.partial(run, "remote_read", sample_seconds=0.25)
                options = (kind, arguments.seconds, folder / "cache")
                subjects = {
                    "directory": functools.partial(read, directory, *options),
                    "s3, 30 ms": functools.partial(read, url, *options),
                }
                results[kind] = take_turns(kind, subjects, arguments.repeat, alternating=True)
                _print_details(results[kind])
    out = _HERE / "results" / "remote_reading.json"
    out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {out}")


def _print_details(found: dict[str, Any]) -> None:
    for name, subject in found.items():
        details = [one["details"] for one in subject["runs"]]
        medians = {key: statistics.median(one[key] for one in details) for key in details[0]}
        print(name, *(f"{key} {value:,.2f}" for key, value in medians.items()), sep="  ")


def _upload(directory: Path, server: Server, name: str) -> str:
    """Puts a set into the bucket, past the proxy; gives its URL."""
    os.environ.update(server.environment)
    forget_connections()
    url = storage.place_of(f"{server.bucket}/{name}")
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        storage.write_bytes(url / path.relative_to(directory).as_posix(), path.read_bytes())
    return str(url)


def _images(work: Path, count: int) -> Path:
    """A set of images of about 100 kB, all different; made once."""
    out = work / f"remote-images-{count}"
    if (out / "manifest.json").exists():
        return out
    source = make_large_photographs(work / "large-photographs", count)
    preprocess(ImageOptions((str(source),), str(out), resize="none", split="train=1"))
    return out


def _tokens(work: Path, count: int) -> Path:
    """A set of token ids; made once."""
    out = work / f"remote-tokens-{count}"
    if not (out / "manifest.json").exists():
        corpus = make_jsonl(work / "remote-texts", count)
        preprocess(
            TextOptions((str(corpus),), str(out), train_tokenizer="bpe:8000", split="train=1")
        )
    return out


if __name__ == "__main__":
    main()
