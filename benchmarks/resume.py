"""Resuming within an epoch: `python -m benchmarks.resume [--large]`.

A synthetic set of 1.28 million records, opened by a new process at the state of 90 % of an epoch:
seconds from `reader.load` to the first batch, bytes of the state, peak memory. With --large the
same with ten times the records: memory must not grow with them. Results go to
benchmarks/results/resume.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.measure import machine, run
from benchmarks.page_cache import drop, fill
from benchmarks.synthetic_set import make_synthetic_set

_HERE = Path(__file__).parent
_SHARE = 0.9  # of the epoch
_SHOWN = ("first_batch_seconds", "load_seconds", "state_bytes", "peak_mib", "anonymous_mib")


def main() -> None:
    """Creates the sets, measures, prints a table, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resume", description=__doc__)
    parser.add_argument("--large", action="store_true", help="12.8 million records too")
    parser.add_argument("--shuffle", choices=["window", "full", "off"], action="append")
    parser.add_argument("--repeat", type=int, default=3, help="the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "share_of_epoch": _SHARE,
    }
    print(f"{'':<34}" + "".join(f"{name:>21}" for name in _SHOWN))
    for num_shards in (10, 100) if arguments.large else (10,):
        directory = make_synthetic_set(arguments.work / f"synthetic-{num_shards}", num_shards)
        records = json.loads((directory / "manifest.json").read_text())["splits"]["train"][
            "records"
        ]
        for shuffle in arguments.shuffle or ("window", "full", "off"):
            found = _measure(directory, shuffle, arguments.work / "state.json", arguments.repeat)
            for name, one in found.items():
                title = f"{records:,} {shuffle}, {name}"
                results[title] = one
                print(f"{title:<34}" + "".join(f"{one[key]:>21,}" for key in _SHOWN), flush=True)
    file = _HERE / "results" / "resume.json"
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"written to {file.relative_to(_HERE.parent)}")


def _measure(directory: Path, shuffle: str, state: Path, repeat: int) -> dict[str, dict[str, Any]]:
    """Medians of a run from the beginning and of resumed ones, page cache warm and cold."""
    files = sorted({path.resolve() for path in directory.rglob("*") if path.is_file()})
    begun = run("resume_read", directory, shuffle, state, _SHARE).details
    found = {"from the beginning": [begun], "resumed": [], "resumed, cold": []}
    for _ in range(repeat):
        fill(files)
        found["resumed"].append(run("resume_read", directory, shuffle, state, 0).details)
        drop(files)
        found["resumed, cold"].append(run("resume_read", directory, shuffle, state, 0).details)
    return {
        name: {key: statistics.median(one[key] for one in runs) for key in begun}
        for name, runs in found.items()
    }


if __name__ == "__main__":
    main()
