"""`shardmill convert` beside the library of each format alone: `python -m benchmarks.conversions`.

The library alone gets records that are in memory, in a process for each core, and writes no
checksums. shardmill reads a set, checks it, and notes what is written. A conversion of one record
is what starting takes, above all loading PyTorch for MDS and LitData; "started" leaves it out.
"""

from __future__ import annotations

import functools
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.corpus import make_corpus
from benchmarks.measure import HERE, Subjects, parser, run, take_turns, write
from shard_format import load_manifest

# By the format the environment of `make peers` that its library is in; None for ours.
_FORMATS = {
    "array_record": None,
    "parquet": None,
    "webdataset": None,
    "files": None,
    "mds": "readers",
    "litdata": "readers",
}
_BUILD = '{"resize": "shorter:256", "quality": "90", "split": "train=0.9,test=0.1"}'


def _made_set(work: Path, photographs: int) -> Path:
    """A set of photographs with a shorter side of 256, made once."""
    out = work / f"reading-{photographs}" / "shardmill"
    if not (out / "manifest.json").exists():
        shutil.rmtree(out, ignore_errors=True)
        run("shardmill_build", "image", make_corpus(work, photographs), out, _BUILD)
    return out


def main() -> None:
    """Measures all formats, and writes the results."""
    options = parser("conversions", __doc__)
    options.add_argument("--photographs", type=int, default=33_600)
    peers = HERE.parent / ".peers"
    options.add_argument("--peers", type=Path, default=peers, help="folder of 'make peers'")
    given = options.parse_args()
    source = _made_set(given.work, given.photographs)
    splits = load_manifest(source).splits.values()
    records, size = sum(one.records for one in splits), sum(one.bytes for one in splits)
    rates: dict[str, dict[str, float]] = {}
    results: dict[str, object] = {"records": records, "bytes": size}
    for to, environment in _FORMATS.items():
        own = given.peers / environment / "bin" / "python" if environment else sys.executable
        ours = functools.partial(run, "shardmill_convert", to, source, python=str(own))
        subjects: Subjects = {
            f"{to}: library": functools.partial(
                run, "format_writers", to, source, given.work / "out", python=str(own)
            ),
            f"{to}: shardmill": functools.partial(ours, given.work / "out", ""),
            f"{to}: one record": functools.partial(ours, given.work / "out", "offset == 0"),
        }
        medians = take_turns(to, subjects, given.turns)
        rates[to] = _rates(size / records, *(one["runs"] for one in medians.values()))
        results |= medians
    print(f"{'MB/s':<16}{'library':>10}{'shardmill':>12}{'started':>10}{'ratio':>8}")
    for to, own in rates.items():
        library, whole, started, ratio = own.values()
        print(f"{to:<16}{library:>10.0f}{whole:>12.0f}{started:>10.0f}{ratio:>8.2f}")
    shutil.rmtree(given.work / "out")
    write("conversions", {"mb_per_second": rates, **results})


def _rates(
    record_bytes: float,
    library: Sequence[dict[str, Any]],
    whole: Sequence[dict[str, Any]],
    one: Sequence[dict[str, Any]],
) -> dict[str, float]:
    """Medians over the turns, in MB of the set per second."""
    alone = [run["records"] / run["seconds"] for run in library]
    all_in = [run["records"] / run["seconds"] for run in whole]
    started = [
        run["records"] / (run["seconds"] - start["seconds"])
        for run, start in zip(whole, one, strict=True)
    ]
    median, mb = statistics.median, record_bytes / 1e6
    return {
        "library": round(median(alone) * mb, 1),
        "shardmill": round(median(all_in) * mb, 1),
        "started": round(median(started) * mb, 1),
        "ratio": round(median(a / b for a, b in zip(started, alone, strict=True)), 3),
    }


if __name__ == "__main__":
    main()
