"""Commands on a finished set of many records: `python -m benchmarks.upkeep [--records 5e6]`.

The set is made up: an index of so many rows with keys in order, ids and fingerprints of their own,
while all shards are links to one file of some short documents. No command can tell, but for those
that look into records. A thousand documents are appended to it by a real build.

Each command is a process of its own. Memory is what it adds to that after its imports: all of it,
and the part that belongs to no file, which the system cannot drop where memory is short.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import parser, write
from shard_format import (
    IndexWriter,
    ShardInfo,
    SplitInfo,
    file_info,
    index_schema,
    load_manifest,
    naming,
    open_index,
)
from shard_format.index_parts import plan_parts
from shard_format.manifest import IndexPart
from shard_format.shard_list import write_shard_list

_RECORDS = 1000  # of a shard
_LINKS = 30_000  # of one file, of which ext4 allows 65,000
_INTERVAL = 0.01  # seconds between two looks at the memory


def main() -> None:
    """Makes the set, measures, writes the results."""
    options = parser("upkeep", __doc__, turns=False)
    options.add_argument("--records", type=float, default=5e6)
    options.add_argument("--commands", default=",".join(_COMMANDS))
    options.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.measure:
        print(json.dumps(_measured(arguments.measure[0], Path(arguments.measure[1]))))
        return
    root = arguments.work / "upkeep"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    make_set(root / "set", int(arguments.records))
    _write_documents(root / "more.jsonl", "new")
    results: dict[str, Any] = {"records": load_manifest(root / "set").splits["train"].records}
    for name in arguments.commands.split(","):
        command = [sys.executable, "-m", "benchmarks.upkeep", "--measure", name, str(root)]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
        results[name] = json.loads(done.stdout.splitlines()[-1])
        print(name, json.dumps(results[name]), flush=True)
    write("upkeep", results)


def make_set(root: Path, records: int) -> None:
    """Makes a set with about that many records.

    Args:
        root: The set, which is not there yet.
        records: Number of records.
    """
    with tempfile.TemporaryDirectory() as scratch:
        small = _build_shard(Path(scratch))
        before = load_manifest(small)
        (shard,) = before.splits["train"].shards
        rows = open_index(small / before.index_file("train")).combine_chunks()
        data = (small / shard.file).read_bytes()
        (root / naming.INDEX_DIR).mkdir(parents=True)
        for name in (naming.BUILD, naming.FEATURES, naming.DATASET_INFO):
            shutil.copy(small / name, root / name)
    count = records // shard.records
    names = [naming.shard_file(before.name, "train", number, count) for number in range(count)]
    for number, name in enumerate(names):
        if number % _LINKS == 0:
            (root / name).write_bytes(data)
            original = root / name
        else:
            os.link(original, root / name)
    shards = [dataclasses.replace(shard, file=name) for name in names]
    index = _write_index(root, rows, shards)
    written = [part.file for part in index]
    if len(index) > 1:
        write_shard_list(root / naming.shards_file("train"), shards)
        written.append(naming.shards_file("train"))
    total = count * shard.records
    split = SplitInfo(shards, before.splits["train"].statistics, index if len(index) > 1 else ())
    ledger = dataclasses.replace(
        before.ledger, read=total, kept=total, duplicates=0, quarantined=0, reasons={}
    )
    files = {name: before.files[name] for name in (naming.FEATURES, naming.DATASET_INFO)}
    files |= {name: file_info(root / name) for name in written}
    manifest = dataclasses.replace(before, splits={"train": split}, ledger=ledger, files=files)
    (root / naming.MANIFEST).write_text(manifest.to_text())


def _write_documents(path: Path, prefix: str) -> None:
    rows = (json.dumps({"text": f"{prefix} document {number}"}) for number in range(_RECORDS))
    path.write_text("\n".join(rows))


def _build_shard(scratch: Path) -> Path:
    """Builds a set of one shard."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    _write_documents(scratch / "rows.jsonl", "old")
    values: dict[str, Any] = {"split": "train=1", "text_column": "text", "no_report": True}
    values["shard_size"] = "64KiB"
    out = scratch / "set"
    preprocess(TextOptions((str(scratch / "rows.jsonl"),), str(out), no_labels=True, **values))
    return out


def _write_index(root: Path, rows: pa.Table, shards: list[ShardInfo]) -> tuple[IndexPart, ...]:
    """Writes rows for all shards, each of which has the places of the one shard."""
    random = np.random.default_rng(0)
    keys = np.sort(random.integers(0, 2**64 - 1, len(rows) * len(shards), np.uint64))
    common = set(index_schema([]).names)
    columns = [field for field in rows.schema if field.name not in common]
    planned, parts = plan_parts(one.records for one in shards), []
    for number, own in enumerate(planned):
        whole = len(planned) == 1
        file = naming.index_file("train") if whole else naming.index_part_file("train", number)
        with IndexWriter(root / file, columns) as writer:
            for shard in own:
                first = shard * len(rows)
                values = {
                    "shard": pa.array(np.full(len(rows), shard, np.int32)),
                    "key": pa.array(keys[first : first + len(rows)]),
                    "record_id": pa.array(
                        [f"rows.jsonl/{first + row:012d}" for row in range(len(rows))]
                    ),
                    "fingerprint": pa.FixedSizeBinaryArray.from_buffers(
                        pa.binary(16), len(rows), [None, pa.py_buffer(random.bytes(16 * len(rows)))]
                    ),
                }
                table = rows
                for name, column in values.items():
                    at = table.column_names.index(name)
                    table = table.set_column(at, table.schema.field(name), column)
                writer.append(table)
        parts.append(IndexPart(file, len(own)))
    return tuple(parts)


def _append(root: Path) -> None:
    from beam_jobs.generations.append import append
    from beam_jobs.options import TextOptions

    sources, out = (str(root / "more.jsonl"),), str(root / "set")
    append(TextOptions(sources, out, append=True, id_prefix="more"), {"id_prefix"})


def _compact(root: Path, removed: tuple[str, ...] = ()) -> None:
    from beam_jobs.generations.compact import compact

    compact(root / "set", removed)


def _remove(root: Path) -> None:
    _compact(root, tuple(f"rows.jsonl/{number:012d}" for number in range(0, 3000, 3)))


def _verify(root: Path) -> None:
    from shard_format import verify_set

    verify_set(root / "set")


def _repair(root: Path) -> None:
    from beam_jobs.repair import repair

    split = load_manifest(root / "set").splits["train"]
    (root / "set" / split.shards[len(split.shards) // 2].file).unlink()
    repair(root / "set")


def _sizes(root: Path) -> None:
    from beam_jobs.build import has_all_files

    has_all_files(root / "set", load_manifest(root / "set"))


def _info(root: Path) -> None:
    from cli.text_statistics import text_json

    text_json(root / "set", load_manifest(root / "set"))


_COMMANDS: dict[str, Callable[[Path], None]] = {
    "append": _append,
    "verify": _verify,
    "sizes": _sizes,
    "info": _info,
    "compact": _compact,
    "remove": _remove,
    "repair": _repair,
}


def _measured(name: str, root: Path) -> dict[str, float]:
    import beam_jobs.generations.append
    import beam_jobs.generations.compact
    import beam_jobs.repair
    import beam_jobs.run  # noqa: F401

    with tempfile.TemporaryDirectory() as scratch:
        _build_shard(Path(scratch))  # loads what a first build loads
    before, peak, ended = _memory(), {"all": 0.0, "private": 0.0}, threading.Event()

    def watch() -> None:
        while not ended.wait(_INTERVAL):
            for kind, size in _memory().items():
                peak[kind] = max(peak[kind], size)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        _COMMANDS[name](root)
    finally:
        seconds = time.perf_counter() - start
        ended.set()
        watcher.join()
    return {
        "seconds": round(seconds, 1),
        "added_mib": round(peak["all"] - before["all"]),
        "added_private_mib": round(peak["private"] - before["private"]),
    }


def _memory() -> dict[str, float]:
    """Memory of this process in MiB: all that is resident, and what belongs to no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {
        line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmR", "Rss"))
    }
    return {"all": int(sizes["VmRSS"]) / 1024, "private": int(sizes["RssAnon"]) / 1024}


if __name__ == "__main__":
    main()
