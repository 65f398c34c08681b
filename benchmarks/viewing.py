"""Pages of `shardmill view` of a million records: `python -m benchmarks.viewing`.

The set is the sparse one of `benchmarks.opening`, with one part of the index: 1,048,102 records of
images of 9 x 9 pixels. Requests are answered in this process, without a port. Each figure is the
median of several requests, by the clock and as CPU time; of filters, for the first time and again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import time
from typing import Any
from urllib.parse import quote

from benchmarks.measure import parser, write
from benchmarks.opening import make_set
from shard_format import naming
from viewer.pages import Pages

_RECORDS = 1_000_000
_REPEATED = 9
PAGES = {
    "records": "records",
    "records, behind 900,000": "records?start=900000",
    "condition": "records?where=source_bytes > {n}",
    "class and folder": "records?label=a&source=a/{n}",
    "text": "records?text={n}.jpg",
    "image": "image/0/{n}000",
    "record": "record/0/{n}000",
    "record of an id": "record?id=a/{n}.jpg",
}


def main() -> None:
    """Makes the set unless it is there, asks for pages, writes the results."""
    arguments = parser("viewing", __doc__, turns=False).parse_args()
    root = arguments.work / "viewing"
    if not (root / naming.MANIFEST).exists():
        make_set(root, _RECORDS)
    pages = Pages(root, None, None)
    app, results = pages.app(), dict[str, Any]()
    for name, path in PAGES.items():
        _seconds(app, path.format(n=1))  # what is loaded at its first use
        own = [path.format(n=10 + n) for n in range(_REPEATED)]
        figures = {}
        for turn in ("first", "again"):
            times = zip(*(_seconds(app, one) for one in own), strict=True)
            clock, cpu = (round(1000 * statistics.median(one), 1) for one in times)
            figures |= {f"{turn}_ms": clock, f"{turn}_cpu_ms": cpu}
        results[name] = figures
        print(f"{name:24} {json.dumps(figures)}")
    results["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    write("viewing", {"records": pages.first.finished.records, **results})


def _seconds(app: Any, path: str) -> tuple[float, float]:
    """(time, CPU time) of a request."""
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/a/0/{path}",
        "root_path": "",
        "headers": [],
    }
    scope["query_string"] = quote(query, safe="=&").encode()
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    begins = time.perf_counter(), time.process_time()
    asyncio.run(app(scope, receive, send))
    seconds = time.perf_counter() - begins[0], time.process_time() - begins[1]
    assert statuses[0] in (200, 303), (path, statuses)
    return seconds


if __name__ == "__main__":
    main()
