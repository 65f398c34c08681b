"""`shardmill verify` against bare hashes: `python -m benchmarks.verify [--gigabytes 4]`.

A set of random bytes in 128 MiB shards is verified and hashed in turns, each subject in a process
of its own, on all cores: verification, `sha256sum` (`xargs -P`), and a loop of CRC-32C alone. The
files are in the page cache, so no disk limits any of them. Rates are by the clock of the whole
process; a ratio is computed within a turn. Results go to benchmarks/results/verify.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa

from benchmarks.measure import machine
from foundation.machine import usable_cores
from shard_format import (
    Feature,
    IndexWriter,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
    index_schema,
    naming,
)

_HERE = Path(__file__).parent
_RECORD_BYTES = 1 << 17  # 128 KiB, as of images
_SHARD_RECORDS = 1 << 10
_BLOCK_BYTES = 1 << 20


def main() -> None:
    """Runs everything, prints it, writes the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the set")
    parser.add_argument("--repeat", type=int, default=5, help="turns; the median counts")
    parser.add_argument("--work", type=Path, default=_HERE / ".work", help="scratch folder")
    parser.add_argument("--crc-of", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.crc_of:
        _crc(arguments.crc_of)
        return
    folder = arguments.work / "verify"
    shards = _make_set(folder, max(1, round(arguments.gigabytes * 1e9 / 2**27)))
    size = sum(path.stat().st_size for path in shards)
    cores = math.ceil(usable_cores())
    python = sys.executable
    subjects = {
        "sha256sum": ["xargs", "-0", "-n1", f"-P{cores}", "sha256sum"],
        "crc32c": [python, "-m", "benchmarks.verify", "--crc-of", str(folder)],
        "verify": [python, "-m", "cli.main", "verify", str(folder)],
        "verify --quick": [python, "-m", "cli.main", "verify", str(folder), "--quick"],
    }
    names = b"\0".join(str(path).encode() for path in shards)
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for turn in range(arguments.repeat + 1):
        for name, command in subjects.items():
            began = time.perf_counter()
            subprocess.run(command, input=names, check=True, capture_output=True)
            took = time.perf_counter() - began
            if turn:  # the first one fills the page cache
                seconds[name].append(took)
                print(f"{turn}  {name:<16} {took:7.2f} s  {size / took / 1e9:6.2f} GB/s")
    results = _results(seconds, size, arguments)
    (_HERE / "results" / "verify.json").write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results["medians"], indent=1))
    shutil.rmtree(folder)


def _results(
    seconds: dict[str, list[float]], size: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    turns = zip(seconds["verify"], seconds["sha256sum"], seconds["crc32c"], strict=True)
    ratios = [(sha / own, crc / own) for own, sha, crc in turns]
    return {
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "command": f"python -m benchmarks.verify --gigabytes {arguments.gigabytes:g} "
        f"--repeat {arguments.repeat}",
        "bytes": size,
        "seconds": {name: [round(one, 3) for one in runs] for name, runs in seconds.items()},
        "medians": {
            "gigabytes_per_second": {
                name: round(size / statistics.median(runs) / 1e9, 3)
                for name, runs in seconds.items()
                if name != "verify --quick"
            },
            "of_sha256sum": round(statistics.median(one for one, _ in ratios), 3),
            "of_crc32c": round(statistics.median(one for _, one in ratios), 3),
            "quick_seconds": round(statistics.median(seconds["verify --quick"]), 3),
        },
    }


def _make_set(folder: Path, count: int) -> list[Path]:
    """A set of so many shards of incompressible records."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / naming.INDEX_DIR).mkdir(parents=True)
    schema = Schema("text", (Feature("id", "text"), Feature("text", "text")))
    generator, infos, index = np.random.default_rng(0), [], folder / naming.index_file("train")
    with IndexWriter(index, ()) as writer:
        for shard in range(count):
            path = folder / naming.shard_file("random", "train", shard, count)
            rows, offset = [], 0
            with path.open("wb") as file:
                for number in range(shard * _SHARD_RECORDS, (shard + 1) * _SHARD_RECORDS):
                    data = generator.bytes(_RECORD_BYTES)
                    framed = frame(encode_example(schema, {"id": str(number), "text": data}))
                    file.write(framed)
                    row = {"shard": shard, "offset": offset, "length": len(framed), "key": number}
                    rows.append(
                        row | {"record_id": str(number), "fingerprint": number.to_bytes(16, "big")}
                    )
                    offset += len(framed)
            writer.append(pa.Table.from_pylist(rows, schema=index_schema(())))
            infos.append(ShardInfo(path.name, len(rows), offset, file_sha256(path)))
    records = count * _SHARD_RECORDS
    named = {
        naming.index_file("train"): {"bytes": index.stat().st_size, "sha256": file_sha256(index)}
    }
    manifest = Manifest(
        "random",
        schema,
        {"train": SplitInfo(tuple(infos), {})},
        Ledger(records, records, 0, 0, 0, {}),
        {},
        named,
    )
    (folder / naming.MANIFEST).write_text(manifest.to_text(), encoding="utf-8")
    return [folder / info.file for info in infos]


def _crc(folder: Path) -> None:
    """Reads every shard and computes a CRC-32C, on all cores."""

    def crc(path: Path) -> int:
        buffer, value = bytearray(_BLOCK_BYTES), 0
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(buffer):
                value = google_crc32c.extend(value, bytes(memoryview(buffer)[:size]))
        return value

    with ThreadPoolExecutor(math.ceil(usable_cores())) as pool:
        list(pool.map(crc, sorted(folder.glob("*.tfrecord-*"))))


if __name__ == "__main__":
    main()
