"""The reader on a set in a directory or at a URL, without a cache."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

# Until the first window, which is read in parts, and tf.data's search for its threads are over.
_WARM_UP_SECONDS = 6.0
_OPTIONS: dict[str, dict[str, Any]] = {
    "images": {"image_size": 224, "augment": "standard"},
    "tokens": {"max_tokens": 256, "buckets": 8, "streams": 1},
}


def main() -> None:
    """Arguments: PLACE images|tokens SECONDS CACHE_DIR."""
    place, kind, seconds, cache_dir = sys.argv[1:]
    import reader
    from foundation import storage

    reader.load  # noqa: B018  loads TensorFlow, whose time is not the reader's
    opened = time.perf_counter()
    stream = reader.load(place, batch_size=64, cache="off", cache_dir=cache_dir, **_OPTIONS[kind])
    loaded = time.perf_counter()
    batches = iter(stream.dataset)
    next(batches)
    begun = time.perf_counter()
    while time.perf_counter() - begun < _WARM_UP_SECONDS:
        next(batches)
    count, before, start, cpu = 0, storage.traffic(), time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < float(seconds):
        next(batches)
        count += 1
    cpu, after = time.process_time() - cpu, storage.traffic()
    details = {
        "load_seconds": loaded - opened,
        "first_batch_seconds": begun - loaded,
        "requests_per_second": (after.requests - before.requests) / passed,
        "received_mb_per_second": (after.received_bytes - before.received_bytes) / passed / 1e6,
        "cpu_us_per_record": 1e6 * cpu / max(1, count * 64),
    }
    found = {"records": count * 64, "seconds": passed, "cpu_seconds": cpu}
    found["details"] = {name: round(value, 2) for name, value in details.items()}
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads that read ahead would take seconds, and the next's CPU


if __name__ == "__main__":
    main()
