"""A job that resumes: opens a set at a state, and takes the first batches.

Without a state file it starts at the beginning, and writes the state at a share of an epoch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil

BATCH = 256
_BATCHES = 100  # after the first: as memory grows with the windows that are in flight


def main() -> None:
    """Arguments: DIR SHUFFLE STATE SHARE; SHARE 0 resumes at STATE, else writes it."""
    directory, shuffle, state_file, share = sys.argv[1:]
    from reader import load  # which loads TensorFlow, as `import reader` alone does not

    imported = _status()["VmRSS"]
    # TensorFlow's runtime has not started yet: its start is measured too.
    state = None if float(share) else json.loads(Path(state_file).read_text())
    begun = time.perf_counter()
    stream = load(
        directory,
        batch_size=BATCH,
        image_size=16,
        augment="standard",
        shuffle=shuffle,
        cache="off",
        state=state,
    )
    loaded = time.perf_counter() - begun
    batches = iter(stream.dataset)
    next(batches)
    first = time.perf_counter() - begun
    for _ in range(_BATCHES):
        next(batches)
    if float(share):
        done = int(float(share) * stream.steps_per_epoch)
        Path(state_file).write_text(json.dumps(stream.state(done)))
    memory = _status()
    details = {
        "load_seconds": round(loaded, 3),
        "first_batch_seconds": round(first, 3),
        "first_step": stream.first_step,
        "state_bytes": Path(state_file).stat().st_size,
        "imported_mib": imported,
        "peak_mib": memory["VmHWM"],
        "anonymous_mib": memory["RssAnon"],
        "file_mib": memory["RssFile"],
        "threads": psutil.Process().num_threads(),
    }
    print(json.dumps({"records": BATCH, "seconds": first, "details": details}), flush=True)
    os._exit(0)  # what is read ahead is not waited for


def _status() -> dict[str, float]:
    """MiB by name, from the kB that proc(5) has of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = [line.split(":") for line in lines if line.endswith(" kB")]
    return {name: round(int(value.split()[0]) / 1024, 1) for name, value in pairs}


if __name__ == "__main__":
    main()
