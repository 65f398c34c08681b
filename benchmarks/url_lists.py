"""Lists of URLs beside img2dataset, from servers on this machine: `python -m benchmarks.url_lists`.

A Parquet list of photographs on 20 hosts, of which 2 % fail and 1 % come after a second, becomes
JPEG of quality 90 with a shorter side of 256. Both retry twice. img2dataset has a process for each
core and its own number of threads; shardmill has its defaults, with 32 requests to a host, and also
finds duplicates, splits, shuffles and indexes. The servers take a part of a core, which is counted
for neither.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpus import make_corpus
from benchmarks.measure import HERE, parser, run, take_turns, write
from benchmarks.subjects.photo_kernels import QUALITY, SIDE
from benchmarks.subjects.photo_servers import hosts

_HOSTS, _PHOTOS = 20, 840
_THREADS = 256  # img2dataset's own number


@contextlib.contextmanager
def _servers(photos: Path) -> Iterator[int]:
    """Within this context the servers run; gives their port."""
    with socket.socket() as one:
        one.bind((hosts(1)[0], 0))
        port = int(one.getsockname()[1])
    command = [sys.executable, "-m", "benchmarks.subjects.photo_servers"]
    process = subprocess.Popen(
        [*command, str(photos), str(port), str(_HOSTS)],
        stdout=subprocess.PIPE,
        cwd=HERE.parent,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield port
    finally:
        process.kill()
        process.wait()


def _write_list(path: Path, count: int, port: int) -> None:
    names = hosts(_HOSTS)
    urls = [f"http://{names[number % _HOSTS]}:{port}/{number}" for number in range(count)]
    pq.write_table(pa.table({"url": urls}), path)


def main() -> None:
    """Measures both, and writes the results."""
    options = parser("url_lists", __doc__)
    options.add_argument("--urls", type=int, default=20_000, help="URLs of the list")
    peers = HERE.parent / ".peers"
    options.add_argument("--peers", type=Path, default=peers, help="folder of 'make peers'")
    given = options.parse_args()
    photos, source, out = (
        make_corpus(given.work, _PHOTOS),
        given.work / "urls.parquet",
        given.work / "out",
    )
    ours = {
        "url_column": "url",
        "no_labels": True,
        "allow_private": True,
        "resize": f"shorter:{SIDE}",
        "quality": str(QUALITY),
        "connections_per_host": 32,
    }
    cores = len(os.sched_getaffinity(0))
    python = str(given.peers / "downloads" / "bin" / "python")
    theirs = (source, out, SIDE, QUALITY, cores, _THREADS)
    with _servers(photos) as port:
        _write_list(source, given.urls, port)
        subjects = {
            "img2dataset": functools.partial(run, "img2dataset_fetch", *theirs, python=python),
            "shardmill": functools.partial(
                run, "shardmill_build", "image", source, out, json.dumps(ours)
            ),
        }
        write("url_lists", {"urls": given.urls, **take_turns("URLs", subjects, given.turns)})


if __name__ == "__main__":
    main()
